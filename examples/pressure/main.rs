//! What many operations, many origins, slow and long answers, many rows and clocks that step cost:
//! `cargo run --release --example pressure`, or with the name of one scene.
//!
//! Each scene runs in a process of its own, so that its peak memory is its own. The peers of a scene
//! stand in the same process: what is measured is at most what this crate and reqwest need. A scene
//! that finds a promise broken fails, and the exit code tells.

#![expect(clippy::disallowed_methods, reason = "real time is what this measures")]

mod catalogue;
mod clocks;
mod dead_origin;
mod long_heads;
mod many_origins;
mod peer;
mod scene;
mod trickled;

use std::{
    io::Write as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use scene::Scene;

const SCENES: [Scene; 8] = [
    Scene { name: "dead-origin", run: dead_origin::run },
    Scene { name: "many-origins", run: many_origins::run },
    Scene { name: "trickled-heads", run: trickled::heads },
    Scene { name: "trickled-bodies", run: trickled::bodies },
    Scene { name: "collected-bodies", run: trickled::collected_bodies },
    Scene { name: "long-heads", run: long_heads::run },
    Scene { name: "catalogue", run: catalogue::run },
    Scene { name: "clocks", run: clocks::run },
];

fn main() -> Result<ExitCode> {
    if let Some(name) = std::env::args().nth(1) {
        let scene = SCENES.iter().find(|scene| scene.name == name).with_context(|| format!("no scene is called {name}"))?;
        println!("{}", scene.measured()?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("| scene | how many | took | peak memory | what came of it |");
    println!("|---|---:|---:|---:|---|");
    let mut all = ExitCode::SUCCESS;
    for Scene { name, .. } in SCENES {
        std::io::stdout().flush()?;
        if !Command::new(std::env::current_exe()?).arg(name).status()?.success() {
            println!("| {name} | | | | failed |");
            all = ExitCode::FAILURE;
        }
    }
    Ok(all)
}
