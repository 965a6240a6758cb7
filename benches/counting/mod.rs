//! Has valgrind count what this very program does.

use std::{env, process::Command};

/// What valgrind prints about one run of this program.
pub(crate) fn valgrind(tool: &[&str], program: &[&str], count: u64) -> String {
    let output = Command::new("valgrind")
        .args(tool)
        .arg(env::current_exe().unwrap())
        .args(program)
        .arg(count.to_string())
        .output()
        .expect("this benchmark needs valgrind");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A number after these words.
pub(crate) fn number_after(report: &str, words: &str) -> u64 {
    let rest = report.lines().find_map(|line| line.split(words).nth(1)).unwrap_or_else(|| panic!("no {words:?} in {report}"));
    let digits: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}
