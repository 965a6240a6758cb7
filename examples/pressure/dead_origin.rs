//! Operations against an origin that refuses every connection, all at once, and a few against one
//! that is well, through the same client.

use std::{
    net::{Ipv4Addr, TcpListener},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use reqwest_safe_retry::{BudgetLimits, Endpoint, Outcome, ReportSlot, SafeRetry, StopReason};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    peer::{Answer, serve},
    scene::{Found, middle_and_last, milliseconds, runtime},
};

const OPERATIONS: u64 = 100_000;
const WELL: u64 = 200;

pub(crate) fn run() -> Result<Found> {
    runtime()?.block_on(storm())
}

async fn storm() -> Result<Found> {
    // Nobody listens there any more.
    let dead = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let well = serve(Answer { begins: "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone".to_owned(), trickles: None }).await?;
    let client = SafeRetry::new().with_deadline(Duration::from_secs(120)).client(reqwest::Client::builder().no_proxy()).build()?;
    let start = Instant::now();

    let mut dying = JoinSet::new();
    for n in 0..OPERATIONS {
        let endpoint = if n % 2 == 0 { Endpoint::read() } else { Endpoint::unprotected_write() };
        let (slot, request) = (ReportSlot::new(), client.post(format!("http://{dead}/{n}")).with_extension(endpoint));
        dying.spawn(async move {
            let failed = request.with_extension(slot.clone()).send().await.is_err();
            let report = slot.take()?;
            (failed && report.outcome() == Outcome::Unprocessed).then(|| (report.attempts().len() as u64, report.stop()))
        });
    }
    let mut living = JoinSet::new();
    for n in 0..WELL {
        let request = client.get(format!("http://127.0.0.1:{well}/{n}"));
        living.spawn(async move {
            sleep(Duration::from_millis(10 * n)).await;
            let asked = Instant::now();
            let answered = request.send().await.is_ok_and(|response| response.status().is_success());
            answered.then(|| asked.elapsed())
        });
    }

    let waits: Vec<_> = living.join_all().await.into_iter().flatten().collect();
    ensure!(waits.len() as u64 == WELL, "{} of {WELL} operations at the other origin were answered", waits.len());
    let ended: Vec<_> = dying.join_all().await.into_iter().flatten().collect();
    ensure!(ended.len() as u64 == OPERATIONS, "{} of {OPERATIONS} operations ended as not processed", ended.len());

    let sends: u64 = ended.iter().map(|(sends, _)| sends).sum();
    let resends = sends - OPERATIONS;
    let limits = BudgetLimits::DEFAULT;
    let earned = u64::from(limits.share()) * OPERATIONS / 1_000_000;
    let granted = earned + u64::from(limits.reserve()) + u64::from(limits.refill_per_second()) * (start.elapsed().as_secs() + 1);
    ensure!(resends <= granted, "{resends} resends, where {granted} are granted");
    let spent = ended.iter().filter(|(_, stop)| *stop == StopReason::BudgetSpent).count();
    let (middle, last) = middle_and_last(waits);
    let (middle, last) = (milliseconds(middle), milliseconds(last));
    let said = format!(
        "all ended as not processed, {spent} of them since the budget was spent; {resends} resends, {granted} were granted; \
         {WELL} reads of a healthy origin in between: {middle} in the middle, {last} at most"
    );
    Ok(Found { many: OPERATIONS, said })
}
