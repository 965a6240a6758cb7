//! The layout's promises, read off the syntax of the production code: which room may name which,
//! that no files go round in a circle, that the engine is pure, that no decision has a catch-all,
//! and in whose hands clocks, chance, downcasts and log lines are.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "what fails here fails the test")]

mod source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Crate, Module};

/// Which rooms a room may name. `ARCHITECTURE.md` draws this table.
const ARROWS: &[(&str, &[&str])] = &[
    ("policy", &[]),
    ("platform", &[]),
    ("request", &["platform", "policy"]),
    ("proof", &["policy"]),
    ("outcome", &["platform", "policy", "request", "proof"]),
    ("response", &["policy", "request"]),
    ("contract", &["platform", "policy", "request", "proof", "outcome", "response"]),
    ("shared", &["platform", "policy", "request"]),
    ("observe", &["platform", "policy", "request", "proof", "outcome", "response", "shared"]),
    ("operation", &["platform", "policy", "request", "proof", "outcome", "response", "contract", "shared", "observe"]),
    ("middleware", &["platform", "policy", "request", "proof", "outcome", "contract", "shared", "observe", "operation"]),
    ("client", &["proof", "request", "middleware"]),
    ("audit", &["policy", "contract", "middleware"]),
    ("errors", &["policy", "request", "response", "contract"]),
    ("report", &["request", "proof", "outcome", "observe"]),
    ("testing", &["policy", "proof", "operation", "middleware"]),
];

/// Where it is decided what an answer means, what protects a resend, what is known in the end, and
/// what an error proves.
const DECISION_TABLES: &[&str] = &[
    "policy/mod.rs",
    "policy/reading.rs",
    "policy/protection.rs",
    "policy/outcome.rs",
    "policy/effect.rs",
    "policy/decision.rs",
    "contract/endpoint.rs",
    "proof/witness/mod.rs",
    "proof/witness/slot.rs",
    "operation/run/mod.rs",
    "operation/run/results.rs",
];

/// Matches in those files that may say "all others", each with its reason.
const EXCUSED: &[(&str, &str, &str)] =
    &[("policy/effect.rs", "of_method", "methods are an open set, and whatever is unknown is the worst")];

#[test]
fn a_room_names_only_the_rooms_below_it() {
    let read = Crate::read();
    let arrows = arrows(&read, |module| module.room().to_owned());
    let allowed: BTreeMap<_, BTreeSet<_>> = ARROWS.iter().map(|(room, below)| (*room, below.iter().copied().collect())).collect();
    let mut wrong = vec![];
    for ((from, to), file) in &arrows {
        if from != "lib" && !allowed.get(from.as_str()).is_some_and(|below| below.contains(to.as_str())) {
            wrong.push(format!("{from} names {to} in {file}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let unused: Vec<_> = ARROWS
        .iter()
        .flat_map(|(room, below)| below.iter().map(move |below| (room.to_string(), below.to_string())))
        .filter(|arrow| !arrows.contains_key(arrow))
        .collect();
    assert!(unused.is_empty(), "allowed, but nobody uses it: {unused:?}");
}

#[test]
fn no_rooms_and_no_files_go_round_in_a_circle() {
    let read = Crate::read();
    for name in [|module: &Module| module.room().to_owned(), Module::unit] {
        let arrows = arrows(&read, name);
        let circles = circles(&arrows.keys().filter(|(from, _)| from != "lib").cloned().collect());
        assert!(circles.is_empty(), "{circles:#?}");
    }
}

#[test]
fn no_decision_is_made_for_whatever_comes() {
    let read = Crate::read();
    let mut found = vec![];
    for file in DECISION_TABLES {
        let module = read.modules.values().find(|module| module.file == *file).unwrap_or_else(|| panic!("{file} is gone"));
        found.extend(module.catch_alls().into_iter().map(|function| (module.file.as_str(), function)));
    }
    let excused = |(file, function): &(&str, String)| EXCUSED.iter().any(|(of, within, _)| of == file && within == function);
    found.retain(|place| !excused(place));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_engine_names_nothing_but_std_http_and_httpdate() {
    let read = Crate::read();
    let outside: Vec<String> = dependencies().into_iter().filter(|name| !matches!(name.as_str(), "http" | "httpdate" | "serde")).collect();
    for module in engine(&read) {
        let names = module.first_names();
        let foreign: Vec<_> = outside.iter().filter(|name| names.contains(*name)).collect();
        assert!(foreign.is_empty(), "{} names {foreign:?}", module.file);
    }
}

#[test]
fn the_engine_asks_no_clock_and_nothing_outside() {
    let read = Crate::read();
    for module in engine(&read) {
        assert!(!module.waits(), "{} waits", module.file);
        let effects = [
            "std::net",
            "std::fs",
            "std::env",
            "std::thread",
            "std::io::stdout",
            "std::io::stderr",
            "Instant::now",
            "SystemTime::now",
            "println",
            "eprintln",
            "dbg",
        ];
        let written = module.written_paths();
        let found: Vec<_> = written.iter().filter(|path| effects.iter().any(|effect| names(path, effect))).collect();
        assert!(found.is_empty(), "{} names {found:?}", module.file);
    }
}

#[test]
fn the_wall_clock_is_read_in_three_places() {
    // For HTTP dates when a head arrives, of an answer or of a probe's, and for the age of a key
    // that an earlier process used.
    assert_eq!(files_naming("wall_clock"), ["contract/probe.rs", "operation/attempt.rs", "operation/key.rs"]);
    assert_eq!(files_naming("SystemTime::now"), ["platform/mod.rs"]);
}

#[test]
fn time_comes_from_the_platform() {
    // The other two have a stand-in in a browser.
    let files: Vec<_> = files_naming("tokio::time").into_iter().filter(|file| !file.starts_with("testing/")).collect();
    assert_eq!(files, ["platform/mod.rs", "response/body/mod.rs", "response/drain.rs"]);
}

#[test]
fn few_files_know_that_there_are_browsers() {
    let all = sources();
    let know: Vec<_> = all.iter().filter(|(_, text)| text.contains("target_arch")).map(|(file, _)| file.as_str()).collect();
    let expected = [
        "contract/probe.rs",
        "contract/status_url/mod.rs",
        "lib.rs",
        "operation/attempt.rs",
        "operation/lane.rs",
        "operation/supply/outgoing.rs",
        "outcome/report/mod.rs",
        "policy/instant.rs",
        "policy/mod.rs",
        "proof/mod.rs",
        "request/replay/mod.rs",
        "response/mod.rs",
    ];
    assert_eq!(know, expected);
    for (file, text) in all.iter().filter(|(file, _)| file.contains("fetch_") || *file == "platform/browser.rs") {
        assert!(!text.contains("Evidence::Unprocessed"), "{file} has no proof of anything");
    }
}

#[test]
fn chance_is_asked_for_in_few_places() {
    // For jitter, and as seeds of hashes; for keys, and for correlation ids.
    let seeds = ["operation/chance.rs", "request/key_making.rs", "shared/reuse_guard.rs", "shared/scope.rs"];
    assert_eq!(files_naming("RandomState::new"), seeds);
    assert_eq!(files_naming("std::hash::RandomState"), ["platform/mod.rs"]);
    assert_eq!(files_naming("Uuid::new_v4"), ["request/correlation.rs", "request/key_making.rs"]);
}

#[test]
fn transport_errors_are_downcast_in_one_file() {
    for foreign in ["hyper_util", "hyper", "h2", "rustls"] {
        let files = files_naming(foreign);
        assert!(files.iter().all(|file| file == "proof/errors.rs" || file.starts_with("testing/")), "{foreign}: {files:?}");
    }
}

#[test]
fn only_observe_speaks_to_tracing_and_metrics() {
    for facade in ["tracing", "metrics"] {
        let speakers = files_naming(facade);
        assert!(speakers.iter().all(|file| file.starts_with("observe/")), "{facade}: {speakers:?}");
    }
}

#[test]
fn nothing_is_spawned_outside_of_the_test_servers() {
    let read = Crate::read();
    let spawns =
        |module: &&Module| module.called_methods().contains("spawn") || module.written_paths().iter().any(|path| path.ends_with("spawn"));
    let spawning: Vec<_> = read.modules.values().filter(spawns).map(|module| module.file.as_str()).collect();
    assert!(spawning.iter().all(|file| file.starts_with("testing/")), "{spawning:?}");
}

#[test]
fn comments_and_docs_end_at_column_one_hundred() {
    let mut long = vec![];
    for (file, text) in sources() {
        // What stands between fences is code.
        let mut fenced = false;
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            fenced ^= comment.trim_start_matches(['/', '!', ' ']).starts_with("```");
            // Tables and links cannot be broken.
            let unbreakable = comment.contains("| ") || comment.contains("http") || comment.split_whitespace().count() < 3;
            if comment.starts_with("//") && line.chars().count() > 100 && !fenced && !unbreakable {
                long.push(format!("{file}:{}", number + 1));
            }
        }
    }
    assert!(long.is_empty(), "{long:#?}");
}

/// Every file below `src`, those that only a browser gets among them.
fn sources() -> BTreeMap<String, String> {
    fn enter(folder: &std::path::Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                enter(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(source::below_src(&path), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    enter(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    found
}

/// Who names whom, with one file that does.
fn arrows(read: &Crate, name: impl Fn(&Module) -> String) -> BTreeMap<(String, String), String> {
    let mut arrows = BTreeMap::new();
    for module in read.modules.values() {
        for mention in module.mentions() {
            let Some(home) = read.home(&mention) else { continue };
            let (from, to): (String, String) = (name(module), name(home));
            if from != to && !module.path.is_empty() && !from.starts_with(&format!("{to}/")) {
                arrows.insert((from, to), module.file.clone());
            }
        }
    }
    arrows
}

/// Groups of names that lead back to themselves.
fn circles(arrows: &BTreeSet<(String, String)>) -> Vec<BTreeSet<String>> {
    let reached = |start: &String| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(from) = open.pop() {
            for (_, to) in arrows.iter().filter(|(name, _)| name == from) {
                if reached.insert(to.clone()) {
                    open.push(to);
                }
            }
        }
        reached
    };
    let all: BTreeMap<&String, BTreeSet<String>> = arrows.iter().map(|(from, _)| (from, reached(from))).collect();
    let in_a_circle = all.iter().filter(|(name, reached)| reached.contains(**name));
    let groups: BTreeSet<BTreeSet<String>> = in_a_circle
        .map(|(name, reached)| reached.iter().filter(|other| all.get(other).is_some_and(|back| back.contains(*name))).cloned().collect())
        .collect();
    groups.into_iter().collect()
}

fn engine(read: &Crate) -> impl Iterator<Item = &Module> {
    read.modules.values().filter(|module| module.room() == "policy")
}

/// The dependencies of the manifest, as they are named in code.
fn dependencies() -> Vec<String> {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    let sections = manifest.split("\n[").filter(|section| section.lines().next().is_some_and(|name| name.ends_with("dependencies]")));
    sections
        .filter(|section| !section.starts_with("dev-"))
        .flat_map(str::lines)
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.replace('-', "_"))
        .collect()
}

/// The files that name a path, such as `rand` or `SystemTime::now`.
fn files_naming(wanted: &str) -> Vec<String> {
    let read = Crate::read();
    let mut files: Vec<String> = read
        .modules
        .values()
        .filter(|module| module.written_paths().iter().any(|path| names(path, wanted)))
        .map(|module| module.file.clone())
        .collect();
    files.sort();
    files.dedup();
    files
}

/// Whether a written path begins with the wanted one, or ends with it where it has several names.
fn names(path: &str, wanted: &str) -> bool {
    let begins = path == wanted || path.starts_with(&format!("{wanted}::"));
    begins || wanted.contains("::") && path.ends_with(&format!("::{wanted}"))
}
