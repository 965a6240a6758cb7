//! One process of the fleet: it sends at a steady rate until its standard input ends, and then says
//! how its operations ended.

use std::{
    env,
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest_safe_retry::{Cooldown, HoldsBack, RetryError, SafeRetry};
use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval},
};

/// Where the waits are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each operation for itself.
    #[allow(dead_code, reason = "the example shows it")]
    None,
    /// Within each process.
    Own,
    /// In the store at this port.
    Store(u16),
}

/// What every process of a fleet does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) processes: u32,
    /// Requests a second, of each.
    pub(crate) rate: f64,
    pub(crate) sharing: Sharing,
}

impl Fleet {
    /// Starts the processes: this program, with these arguments. Each must get to [`work`].
    pub(crate) fn start(self, upstream: &str, arguments: &[&str]) -> Workers {
        let sharing = match self.sharing {
            Sharing::None => "none".to_owned(),
            Sharing::Own => "own".to_owned(),
            Sharing::Store(port) => port.to_string(),
        };
        let start = |number: u32| {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(arguments).env("FLEET_UPSTREAM", upstream).env("FLEET_SHARING", &sharing);
            // Their clocks tick evenly apart.
            command
                .env("FLEET_RATE", self.rate.to_string())
                .env("FLEET_PHASE", (f64::from(number) / f64::from(self.processes)).to_string());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        Workers((0..self.processes).map(start).collect())
    }
}

/// The processes of a fleet. They end with their handle.
pub(crate) struct Workers(Vec<Child>);

/// How many operations of all processes ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ends {
    pub(crate) answered: usize,
    pub(crate) cooling_down: usize,
    pub(crate) otherwise: usize,
}

impl Workers {
    /// No operation starts any more; those that were started end.
    pub(crate) fn end(mut self) -> Ends {
        self.0.iter_mut().for_each(|child| drop(child.stdin.take()));
        let mut ends = Ends::default();
        for child in &mut self.0 {
            let mut said = String::new();
            child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            let line = said.lines().find_map(|line| line.split_once("ended: ")).unwrap_or_else(|| panic!("said {said:?}")).1;
            let mut counts = line.split(' ').map(|count| count.parse::<usize>().unwrap());
            ends.answered += counts.next().unwrap();
            ends.cooling_down += counts.next().unwrap();
            ends.otherwise += counts.next().unwrap();
        }
        ends
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether this is a process of a fleet.
#[allow(dead_code, reason = "a test is told by its name")]
pub(crate) fn is_one() -> bool {
    env::var_os("FLEET_UPSTREAM").is_some()
}

/// Works, as a process of a fleet.
pub(crate) fn work() {
    let upstream = env::var("FLEET_UPSTREAM").expect("started by a fleet");
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(send(&upstream));
}

async fn send(upstream: &str) {
    let number = |name| env::var(name).unwrap().parse::<f64>().unwrap();
    let (rate, phase) = (number("FLEET_RATE"), number("FLEET_PHASE"));
    let client = retry().client(reqwest::Client::builder().no_proxy()).build().unwrap();
    let (ended, mut end) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = ended.send(());
    });
    let (ends, mut operations) = (Arc::new(Mutex::new(Ends::default())), tokio::task::JoinSet::new());
    tokio::time::sleep(Duration::from_secs_f64(phase / rate)).await;
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while end.try_recv().is_err() {
        ticks.tick().await;
        let (operation, ends) = (client.get(upstream).send(), Arc::clone(&ends));
        operations.spawn(async move {
            let result = operation.await;
            let mut ends = ends.lock().unwrap();
            match result {
                Ok(answer) if answer.status() == 200 => ends.answered += 1,
                Err(error) if matches!(RetryError::find(&error), Some(RetryError::CoolingDown(_))) => ends.cooling_down += 1,
                Ok(_) | Err(_) => ends.otherwise += 1,
            }
        });
    }
    operations.join_all().await;
    let Ends { answered, cooling_down, otherwise } = *ends.lock().unwrap();
    let _ = writeln!(std::io::stdout(), "ended: {answered} {cooling_down} {otherwise}");
}

fn retry() -> SafeRetry {
    match env::var("FLEET_SHARING").unwrap().as_str() {
        "none" => SafeRetry::new(),
        "own" => SafeRetry::new().with_shared_cooldown(Cooldown::new().holding_back(HoldsBack::FirstSendsToo)),
        port => {
            let store = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
            let (cooldown, link) = reqwest_safe_retry_redis::share(store, "test");
            tokio::spawn(link.run());
            SafeRetry::new().with_shared_cooldown(cooldown)
        }
    }
}
