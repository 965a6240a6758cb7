//! The layout's promises, read off the sources: the engine is pure, chance and clocks are in few hands, secrets have no printer.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{fs, path::Path};

/// Every source file below a folder, as (path, text without its unit tests).
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !path.ends_with("tests.rs")
                && !path.to_string_lossy().contains("/tests/")
            {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
                found.push((path.to_string_lossy().replace('\\', "/"), code));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// The lines that are code: neither comments nor docs.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

fn files_naming(folder: &str, words: &[&str]) -> Vec<String> {
    let mut named: Vec<String> = sources(folder)
        .into_iter()
        .filter(|(_, text)| code(text).any(|line| words.iter().any(|word| line.contains(word))))
        .map(|(path, _)| path.rsplit_once("/src/").map_or(path.clone(), |(_, file)| file.to_owned()))
        .collect();
    named.sort();
    named
}

#[test]
fn the_engine_names_nothing_but_std_http_and_httpdate() {
    let outside = [
        "crate::",
        "tokio",
        "reqwest::",
        "reqwest_middleware",
        "async ",
        ".await",
        "rand::",
        "tracing",
        "metrics::",
        "println!",
        "Instant::now",
        "SystemTime::now",
        "std::net",
        "std::fs",
        "std::env",
        "thread::",
    ];
    let outside_of_policy =
        |text: &str| code(text).filter(|line| !line.contains("crate::policy")).any(|line| outside.iter().any(|word| line.contains(word)));
    let guilty: Vec<_> = sources("src/policy").into_iter().filter(|(_, text)| outside_of_policy(text)).map(|(path, _)| path).collect();
    assert!(guilty.is_empty(), "{guilty:?}");
}

#[test]
fn policy_matches_have_no_catch_all_arm_where_safety_is_decided() {
    let table = sources("src/policy").into_iter().find(|(path, _)| path.ends_with("protection.rs")).unwrap().1;
    assert!(code(&table).all(|line| !line.trim_start().starts_with("_ =>")));
}

#[test]
fn the_wall_clock_is_read_in_two_places() {
    // For HTTP dates when a head arrives, and for the age of a key that an earlier process used.
    assert_eq!(files_naming("src", &["SystemTime::now("]), ["attempt.rs", "operation_key.rs"]);
}

#[test]
fn chance_is_asked_for_in_three_places() {
    // For jitter, for keys, and for correlation ids.
    assert_eq!(files_naming("src", &["rand::"]), ["correlation.rs", "key_source.rs", "plan.rs"]);
}

#[test]
fn errors_are_downcast_in_one_file_and_never_read_as_text() {
    assert_eq!(
        files_naming("src", &["hyper_util::", "hyper::Error", "h2::"])
            .iter()
            .filter(|file| !file.starts_with("testing/"))
            .collect::<Vec<_>>(),
        ["evidence.rs"]
    );
    assert!(files_naming("src", &[".to_string().contains(", ".to_string().starts_with("]).is_empty());
}

#[test]
fn only_observe_speaks_to_tracing_and_metrics() {
    let speakers = files_naming("src", &["tracing::", "metrics::"]);
    assert!(speakers.iter().all(|file| file.starts_with("observe")), "{speakers:?}");
}

#[test]
fn nothing_is_spawned_outside_of_the_test_servers() {
    let spawning = files_naming("src", &["spawn("]);
    assert!(spawning.iter().all(|file| file.starts_with("testing/")), "{spawning:?}");
}
