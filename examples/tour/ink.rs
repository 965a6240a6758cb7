//! Colour on a terminal, plain text everywhere else.

use std::{
    io::{IsTerminal as _, stdout},
    sync::LazyLock,
};

enum Paper {
    Terminal,
    Plain,
}

static PAPER: LazyLock<Paper> =
    LazyLock::new(|| if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() { Paper::Terminal } else { Paper::Plain });

pub(crate) fn bold(text: &str) -> String {
    ink("1", text)
}

pub(crate) fn dim(text: &str) -> String {
    ink("2", text)
}

pub(crate) fn green(text: &str) -> String {
    ink("32", text)
}

pub(crate) fn red(text: &str) -> String {
    ink("31", text)
}

fn ink(code: &str, text: &str) -> String {
    match *PAPER {
        Paper::Terminal => format!("\x1b[{code}m{text}\x1b[0m"),
        Paper::Plain => text.to_owned(),
    }
}
