//! What the fuzz targets check, for their seeds: one code, on stable, without a fuzzer.
//!
//! A finding becomes a seed: `fuzz/README.md`.

#[allow(unreachable_pub, reason = "a crate of its own, included here")]
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

use std::{fs, path::Path};

fn every_seed_of(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for seed in fs::read_dir(&folder).unwrap() {
        let path = seed.unwrap().path();
        println!("{}", path.display()); // shown where the seed fails
        check(&fs::read(path).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "{} is empty", folder.display());
}

macro_rules! seeds {
    ($($target:ident: $promise:ident),+ $(,)?) => {$(
        #[test]
        fn $promise() {
            every_seed_of(stringify!($target), targets::$target::check);
        }
    )+};
}

seeds! {
    catalogs: a_catalogue_file_is_read_whole_or_refused_with_its_place,
    decide: a_decision_is_harmless_and_in_time,
    hints: a_wait_is_never_shorter_than_asked,
    keys: a_key_survives_the_wire_and_is_read_as_the_standard_says,
    replay: a_situation_that_was_written_down_leads_to_the_same_decision,
    templates: a_template_knows_what_it_is_filled_with,
    vendor_fields: a_vendors_field_speaks_in_its_turn,
}
