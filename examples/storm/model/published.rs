//! The numbers that others published, as their own programs print them.

use serde_json::Value;

/// The 25 cells of the AWS simulation, each the mean and deviation of 100 runs.
pub(crate) fn contention() -> Vec<Value> {
    rows(include_str!("../../../tests/data/aws_backoff_simulation.json"), "/rows")
}

/// The 36 cells of Brooker's failure-rate simulation.
pub(crate) fn failures() -> Vec<Value> {
    rows(include_str!("../../../tests/data/brooker_simulations.json"), "/retries/rows")
}

/// One trigger of Brooker's collapse simulation: `spike` or `ramp`.
pub(crate) fn collapse(trigger: &str) -> Vec<Value> {
    rows(include_str!("../../../tests/data/brooker_simulations.json"), &format!("/metastable/{trigger}"))
}

/// A number of a row.
///
/// # Panics
/// If the file is not what it was: then nothing can be compared with it.
pub(crate) fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

/// The row that fits.
///
/// # Panics
/// As [`number`].
pub(crate) fn row(rows: &[Value], fits: impl FnMut(&&Value) -> bool) -> &Value {
    rows.iter().find(fits).unwrap_or_else(|| panic!("a published row is missing"))
}

fn rows(file: &str, pointer: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap_or_else(|broken| panic!("{broken}"));
    file.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no {pointer}")).clone()
}
