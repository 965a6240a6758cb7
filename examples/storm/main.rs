//! What a storm looks like: `cargo run --release --example storm -- --out docs`.
//!
//! Thousands of simulated clients on virtual time, obeying the real policy and paying from the real
//! budget. Three published simulations are reproduced, then an outage and a fleet are: each prints
//! a table, is drawn as SVG, and is held to its claims; the exit code tells.
//!
//! `--quick` runs less often, within accordingly wider tolerances, and a fifth of the outage's
//! clients. [`model::outage`] is the file to read first.

mod model;
mod pictures;

use std::{error::Error, path::PathBuf, process::ExitCode};

use indicatif::{ProgressBar, ProgressStyle};
use model::{
    claim::Claim,
    collapse, contention, failures, fleet,
    outage::{self, BEGINS, Behaviour, ENDS, Scene, Storm},
};

/// How often each simulation runs.
struct Effort {
    contention: u32,
    collapse: u32,
    storms: u64,
    scene: Scene,
}

const THOROUGH: Effort = Effort { contention: 100, collapse: 20, storms: 10, scene: Scene::FULL };
const QUICK: Effort = Effort { contention: 10, collapse: 5, storms: 1, scene: Scene::SMALL };

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (mut effort, mut out) = (THOROUGH, PathBuf::from("target/storm"));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => effort = QUICK,
            "--out" => out = arguments.next().ok_or("--out wants a directory")?.into(),
            _ => return Err(format!("unknown argument {argument}; known are --quick and --out DIR").into()),
        }
    }
    std::fs::create_dir_all(&out)?;

    let Effort { contention: races, collapse: collapses, storms, scene } = effort;
    let [contended, failing, collapsing, shared] = [
        contention::CELLS as u64 * u64::from(races),
        failures::CELLS as u64,
        collapse::CELLS as u64 * u64::from(collapses),
        fleet::CELLS as u64,
    ];
    let bar = ProgressBar::new(contended + failing + collapsing + shared + storms * Behaviour::ALL.len() as u64);
    bar.set_style(ProgressStyle::with_template("{msg:12} {wide_bar} {pos}/{len} runs, {eta} left")?);
    let ran = || bar.inc(1);

    bar.set_message("contention");
    let contended = contention::table(races, ran);
    bar.set_message("failures");
    let failing = failures::table(ran);
    bar.set_message("collapse");
    let collapsing = collapse::table(collapses, ran);
    bar.set_message("outage");
    let run = |seed| Behaviour::ALL.map(|behaviour| (outage::run(behaviour, scene, seed), ran()).0);
    let storms: Vec<_> = (1..=storms).map(run).collect();
    bar.set_message("fleet");
    let fleets = fleet::table(ran);
    bar.finish_and_clear();

    print_contention(&contended, races);
    print_failures(&failing);
    print_collapse(&collapsing);
    let [shown, ..] = storms.as_slice() else { return Err("no storm".into()) };
    print_outage(shown);
    print_fleets(&fleets);

    pictures::load(&out.join("storm-load.svg"), shown)?;
    pictures::goodput(&out.join("storm-goodput.svg"), shown)?;
    pictures::contention(&out.join("storm-contention.svg"), &contended, races)?;
    pictures::failures(&out.join("storm-failures.svg"), &failing)?;
    pictures::fleet(&out.join("storm-fleet.svg"), &fleets)?;
    println!("\npictures: {}", out.join("storm-*.svg").display());

    let mut claims = contention::claims(&contended, races);
    claims.extend(failures::claims(&failing));
    claims.extend(collapse::claims(&collapsing, collapses));
    claims.extend(fleet::claims(&fleets));
    claims.extend(storms.iter().flat_map(|storms| outage::claims(storms)));
    Ok(judge(&claims))
}

fn judge(claims: &[Claim]) -> ExitCode {
    let failed: Vec<_> = claims.iter().filter(|claim| !claim.holds()).collect();
    println!("claims:   {} of {} hold", claims.len() - failed.len(), claims.len());
    failed.iter().for_each(|claim| println!("FAILED    {claim}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_contention(cells: &[contention::Cell], runs: u32) {
    println!("Contention (AWS): clients race to write one row; mean of {runs} runs, published mean in brackets\n");
    println!("{:>7}  {:<13} {:>17} {:>19}", "clients", "backoff", "calls", "seconds");
    for cell in cells {
        let [(_, calls, published_calls, _), (_, millis, published_millis, _)] = contention::published(cell, runs);
        let (clients, algorithm) = (cell.clients, format!("{:?}", cell.algorithm));
        let (seconds, published_seconds) = (millis / 1e3, published_millis / 1e3);
        println!("{clients:>7}  {algorithm:<13} {calls:>8.0} ({published_calls:>6.0}) {seconds:>9.2} ({published_seconds:>7.2})");
    }
}

fn print_failures(cells: &[failures::Cell]) {
    println!("\nFailing attempts (Brooker): share of calls that succeed / requests for a call, published in brackets\n");
    print!("{:>7}", "failing");
    failures::Strategy::ALL.iter().for_each(|strategy| print!("  {:<27}", format!("{strategy:?}")));
    for row in cells.chunks(failures::Strategy::ALL.len()) {
        print!("\n{:>6.0}%", row.first().map_or(f64::NAN, |cell| 100.0 * cell.rate));
        for cell in row {
            let [success, load] = ["success_ratio", "load_ratio"].map(|column| cell.published(column));
            print!("  {:.3} / {:.2} ({success:.3} / {load:.2})", cell.success, cell.load);
        }
    }
    println!();
}

fn print_collapse(cells: &[collapse::Cell]) {
    println!("\nCollapse (Brooker): share of runs that are stuck after the trigger has gone (published) / late\n");
    print!("{:>7}", "");
    collapse::Client::ALL.iter().for_each(|client| print!("  {:<18}", format!("{client:?}")));
    for row in cells.chunks(collapse::Client::ALL.len()) {
        print!("\n{:>7}", row.first().map_or(String::new(), |cell| format!("{:?}", cell.trigger)));
        for cell in row {
            let published = cell.published().map_or("  - ".into(), |stuck| format!("{stuck:.2}"));
            print!("  {:<18}", format!("{:.2} ({published}) / {:.2}", cell.stuck, cell.stuck_late));
        }
    }
    println!();
}

fn print_outage(storms: &[Storm]) {
    println!("\nAn outage of 30 s: requests for an operation, the most requests in a second, operations that fail, seconds to recover\n");
    println!(
        "{:<22} {:>9} {:>9} {:>9} {:>8} {:>12} {:>9} {:>9}",
        "", "before", "in it", "after", "peak/s", "fail before", "after", "recovery"
    );
    for storm in storms {
        let [before, out, after] = [(0, BEGINS), (BEGINS, ENDS), (ENDS, storm.settled())].map(|(from, to)| storm.load(from, to));
        let [failed_before, failed_after] = [(0, BEGINS - 10), (ENDS, storm.settled())].map(|(from, to)| 100.0 * storm.failed(from, to));
        let recovery = storm.recovery().map_or("never".into(), |seconds| format!("{seconds} s"));
        let (name, peak) = (storm.behaviour.name(), storm.peak());
        println!("{name:<22} {before:>9.2} {out:>9.2} {after:>9.2} {peak:>8} {failed_before:>10.1} % {failed_after:>7.1} % {recovery:>9}");
    }
}

fn print_fleets(cells: &[fleet::Cell]) {
    println!("\nA fleet: requests for an operation when everything fails / share of everyday failures that are healed\n");
    print!("{:>9}", "processes");
    fleet::Budget::ALL.iter().for_each(|budget| print!("  {:<13}", format!("{budget:?}")));
    for row in cells.chunks(fleet::Budget::ALL.len()) {
        print!("\n{:>9}", row.first().map_or(0, |cell| cell.processes));
        row.iter().for_each(|cell| print!("  {:.2} / {:>3.0} % ", cell.load, 100.0 * cell.healed));
    }
    println!();
}
