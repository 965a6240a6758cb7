//! The simulator of `examples/storm` bears out what others published and what the README shows,
//! with fewer runs than the example itself.

#[path = "../../../examples/storm/model/mod.rs"]
#[expect(dead_code, reason = "the example also prints and draws")]
mod model;

use model::{claim::Claim, collapse, contention, failures, fleet, outage};

fn assert_all(claims: &[Claim]) {
    assert!(!claims.is_empty());
    let failed: Vec<_> = claims.iter().filter(|claim| !claim.holds()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn jitter_has_the_published_effect_under_contention() {
    let runs = 10;
    assert_all(&contention::claims(&contention::table(runs, || ()), runs));
}

#[test]
fn resends_heal_and_load_as_published() {
    assert_all(&failures::claims(&failures::table(|| ())));
}

#[test]
fn a_collapse_is_cured_by_a_budget_and_not_by_backoff() {
    let runs = 5;
    assert_all(&collapse::claims(&collapse::table(runs, || ()), runs));
}

#[test]
fn after_an_outage_only_a_budget_lets_the_server_come_back() {
    let storms = outage::Behaviour::ALL.map(|behaviour| outage::run(behaviour, outage::Scene::SMALL, 1));
    assert_all(&outage::claims(&storms));
}

#[test]
fn in_a_fleet_shares_add_up_and_reserves_multiply() {
    assert_all(&fleet::claims(&fleet::table(|| ())));
}

#[test]
fn the_same_seed_gives_the_same_storm() {
    let seconds = |seed| format!("{:?}", outage::run(outage::Behaviour::CoolDown, outage::Scene::SMALL, seed).seconds);
    assert_eq!(seconds(7), seconds(7));
    assert_ne!(seconds(7), seconds(8));
}
