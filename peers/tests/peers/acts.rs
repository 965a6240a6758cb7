//! What was really done, by the name of the operation. A file, so that a killed process leaves what
//! it has written.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

pub(crate) struct Acts(PathBuf);

impl Acts {
    /// None yet.
    pub(crate) fn new(folder: &Path) -> Self {
        let acts = Self::of(folder);
        fs::write(&acts.0, "").unwrap();
        acts
    }

    /// What was done so far.
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.join("acts"))
    }

    /// One line for each act.
    pub(crate) fn file(&self) -> &Path {
        &self.0
    }

    pub(crate) fn counted(&self) -> HashMap<String, u32> {
        let mut counted = HashMap::new();
        for name in fs::read_to_string(&self.0).unwrap().lines() {
            *counted.entry(name.to_owned()).or_default() += 1;
        }
        counted
    }
}
