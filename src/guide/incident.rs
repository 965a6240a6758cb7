#![doc = include_str!("../../docs/reading-an-incident.md")]
