//! The README and the guide say what the code does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use http::StatusCode;
use reqwest_safe_retry::policy::{BudgetLimits, Decision, Effect, Evidence, Lapsed, RetryPolicy, Signal, Situation, defaults};

const README: &str = include_str!("../../README.md");
const DEFAULTS: &str = include_str!("../../src/guide/defaults.rs");
const DAY: Duration = Duration::from_secs(86_400);

/// The cells of the table row that starts with this.
fn row(text: &'static str, start: &str) -> Vec<&'static str> {
    let line = text.lines().map(|line| line.trim_start_matches("//! ")).find(|line| line.starts_with(start));
    line.unwrap_or_else(|| panic!("no row {start}")).trim_matches('|').split('|').map(str::trim).collect()
}

/// The pages of the guide by name, as Markdown with what they include of it.
fn pages() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(root.join("src/guide")).unwrap().map(|file| file.unwrap().path());
    files
        .map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), markdown(root, &fs::read_to_string(&file).unwrap())))
        .collect()
}

fn markdown(root: &Path, page: &str) -> String {
    let included = |line: &str| {
        let file = line.strip_prefix("#![doc = include_str!(\"../../")?.strip_suffix("\")]")?;
        file.ends_with(".md").then(|| fs::read_to_string(root.join(file)).unwrap())
    };
    let text = |line: &str| line.strip_prefix("//!").map_or(line, |text| text.strip_prefix(' ').unwrap_or(text)).to_owned();
    page.lines().map(|line| included(line).unwrap_or_else(|| text(line) + "\n")).collect()
}

fn cell(effect: Effect, signal: Signal, evidence: Evidence) -> String {
    match RetryPolicy::DEFAULT.decide(&Situation::new(effect, signal, evidence)) {
        Decision::Return => "return".to_owned(),
        Decision::Resend(permit) => format!("{:?}", permit.reason()),
        Decision::Probe(_) => "probe".to_owned(),
        Decision::Stop(reason) => format!("stop {reason:?}"),
    }
}

#[test]
fn the_effect_table_is_the_engines() {
    let keyed = |remembered_for, lapsed| Effect::KeyedWrite { remembered_for, lapsed };
    let rows = [
        ("`Read`, `IdempotentWrite`", Effect::Read),
        ("`Read`, `IdempotentWrite`", Effect::IdempotentWrite),
        ("`KeyedWrite`, key remembered", keyed(DAY, Lapsed::Stop)),
        ("`KeyedWrite`, key lapsed |", keyed(Duration::ZERO, Lapsed::Stop)),
        ("`KeyedWrite`, key lapsed, probed", keyed(Duration::ZERO, Lapsed::Probe)),
        ("`ProbedWrite`", Effect::ProbedWrite),
        ("`UnprotectedWrite`", Effect::UnprotectedWrite),
        ("`NeverResend`", Effect::NeverResend),
    ];
    for (name, effect) in rows {
        let busy = Signal::Answered(StatusCode::SERVICE_UNAVAILABLE);
        let computed = [
            cell(effect, busy, Evidence::Unknown),
            cell(effect, Signal::Failed, Evidence::Unprocessed),
            cell(effect, Signal::Failed, Evidence::Unknown),
            cell(effect, Signal::BodyLost(StatusCode::OK), Evidence::Unknown),
            cell(effect, Signal::KeyInUse, Evidence::Unknown),
            cell(effect, Signal::ProbedAbsent, Evidence::Unprocessed),
        ];
        assert_eq!(row(README, &format!("| {name}"))[1..], computed, "{name}");
    }
}

#[test]
fn the_guide_names_every_default_with_its_value() {
    let time = |time: Duration| match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    };
    let doubling = |backoff: reqwest_safe_retry::policy::Backoff| {
        let (first, cap) = (backoff.bound(1), backoff.bound(u32::MAX));
        assert_eq!(backoff.bound(2), 2 * first);
        format!("{} doubling, at most {}", time(first), time(cap))
    };
    let statuses: Vec<_> = defaults::STATUSES.iter().map(|status| status.as_str().to_owned()).collect();
    let values = [
        ("ATTEMPTS", defaults::ATTEMPTS.to_string()),
        ("BACKOFF", doubling(defaults::BACKOFF)),
        ("THROTTLE_BACKOFF", doubling(defaults::THROTTLE_BACKOFF)),
        ("KEY_IN_USE_WAITS", defaults::KEY_IN_USE_WAITS.to_string()),
        ("JITTER", format!("{:?}", defaults::JITTER)),
        ("WINDOW", time(defaults::WINDOW)),
        ("LEAST_ATTEMPT", time(defaults::LEAST_ATTEMPT)),
        ("STATUSES", statuses.join(" ")),
        ("HINT_SPREAD", format!("{:?}", defaults::HINT_SPREAD)),
        ("HINT_SPREAD_DIVISOR", defaults::HINT_SPREAD_DIVISOR.to_string()),
        ("UNREADABLE_HINT", format!("{:?}", defaults::UNREADABLE_HINT)),
        ("CREDIBLE_SKEW", time(defaults::CREDIBLE_SKEW)),
        ("MOST_SHARED_WAIT", time(defaults::MOST_SHARED_WAIT)),
        ("MOST_HEARD", time(defaults::MOST_HEARD)),
        ("BUDGET_PERCENT", defaults::BUDGET_PERCENT.to_string()),
        ("BUDGET_RESERVE", defaults::BUDGET_RESERVE.to_string()),
        ("BUDGET_REFILL_PER_SECOND", defaults::BUDGET_REFILL_PER_SECOND.to_string()),
        ("BUDGET_MEMORY", time(defaults::BUDGET_MEMORY)),
        ("ADAPTIVE_PERCENT", defaults::ADAPTIVE_PERCENT.to_string()),
        ("ADAPTIVE_WINDOW", time(defaults::ADAPTIVE_WINDOW)),
        ("KEY_LENGTH", format!("{:?}", defaults::KEY_LENGTH)),
        ("GUARDED_KEYS", defaults::GUARDED_KEYS.to_string()),
        ("SETTLING", time(defaults::SETTLING)),
        ("LAST_LOOK_DIVISOR", defaults::LAST_LOOK_DIVISOR.to_string()),
        ("DRAIN_MOST", defaults::DRAIN_MOST.to_string()),
        ("DRAIN_LONGEST", time(defaults::DRAIN_LONGEST)),
        ("BODY_GRACE", defaults::BODY_GRACE.to_string()),
        ("LEAST_FRAME", defaults::LEAST_FRAME.to_string()),
        ("SHOWN_HOST", defaults::SHOWN_HOST.to_string()),
        ("SHOWN_METHOD", defaults::SHOWN_METHOD.to_string()),
        ("SCOPES", defaults::SCOPES.to_string()),
        ("ADVICE", defaults::ADVICE.to_string()),
        ("KEPT_ALIVE", defaults::KEPT_ALIVE.to_string()),
        ("YOUNG_BUDGET", time(defaults::YOUNG_BUDGET)),
        ("MANY_BUDGETS", defaults::MANY_BUDGETS.to_string()),
    ];
    for (name, value) in &values {
        assert_eq!(row(DEFAULTS, &format!("| [{name}] "))[1], value, "{name}");
    }
    let constants = include_str!("../../src/policy/defaults.rs").lines().filter_map(|line| line.strip_prefix("pub const "));
    let constants: Vec<_> = constants.filter_map(|line| line.split(':').next()).collect();
    assert_eq!(values.map(|(name, _)| name).as_slice(), constants);
}

#[test]
fn what_is_called_the_default_has_the_default_numbers() {
    assert_eq!(RetryPolicy::DEFAULT.attempts(), defaults::ATTEMPTS);
    let budget = BudgetLimits::DEFAULT;
    assert_eq!(budget.share(), u32::from(defaults::BUDGET_PERCENT) * 10_000);
    assert_eq!((budget.reserve(), budget.refill_per_second()), (defaults::BUDGET_RESERVE, defaults::BUDGET_REFILL_PER_SECOND));
}

#[test]
fn nobody_has_to_read_more_than_a_few_minutes() {
    assert!(README.lines().count() <= 220, "the README has {} lines", README.lines().count());
    for (name, text) in pages() {
        assert!(text.lines().count() <= 150, "guide::{name} has {} lines", text.lines().count());
    }
}

#[test]
fn every_page_is_listed_and_every_link_from_the_readme_leads_to_one() {
    let pages = pages();
    let names: Vec<_> = pages.keys().filter(|name| *name != "mod").collect();
    for name in &names {
        assert!(pages["mod"].contains(&format!("| [`{name}`] |")), "{name} is not in the guide's table");
    }
    for link in README.split("reqwest_safe_retry/guide/").skip(1) {
        let name = link.split(['/', ')']).next().unwrap();
        assert!(name.is_empty() || pages.contains_key(name), "there is no page {name}");
    }
}

/// Shows the sources and Markdown pages below these folders.
fn each_text(root: &Path, folders: &[&str], mut show: impl FnMut(&Path, &str)) {
    let mut open: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
            show(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

/// What the crate says to its users names pages, and every one of them is there.
#[test]
fn every_page_that_the_code_or_the_docs_name_is_one() {
    let pages = pages();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = BTreeMap::new();
    each_text(root, &["src", "docs", "examples"], |file, text| {
        for mention in text.split("guide::").skip(1) {
            let end = mention.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(mention.len());
            named.insert(mention[..end].to_owned(), file.to_owned());
        }
    });
    for (name, file) in &named {
        assert!(pages.contains_key(name), "{} names guide::{name}, and there is no such page", file.display());
    }
    // Misuses, advice and a doc comment: they were looked through.
    for name in ["budgets", "deadlines", "keys", "order", "probes"] {
        assert!(named.contains_key(name), "nobody names guide::{name}");
    }
}

/// Constants excepted, of which the guide has tables. A method counts as shown by its name.
#[test]
fn every_public_type_and_function_is_shown_in_an_example() {
    let kinds = ["struct", "enum", "trait", "fn"];
    let mut of_a_trait = false;
    let mut names = BTreeSet::new();
    for line in include_str!("../../docs/public-api.txt").lines() {
        let mut words = line.split(' ');
        if line.starts_with("impl") {
            of_a_trait = line.contains(" for "); // somebody else's, `Display` say
            continue;
        }
        let Some(kind) = words.find(|word| kinds.contains(word)) else { continue };
        of_a_trait &= kind == "fn";
        let path = words.next().and_then(|path| path.split(['(', '<']).next());
        if !of_a_trait {
            names.extend(path.and_then(|path| path.trim_end_matches(':').rsplit("::").next()));
        }
    }
    let code = |text: &str| text.split("```").skip(1).step_by(2).map(str::to_owned).collect::<String>();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut shown = code(README);
    each_text(root, &["src", "examples"], |file, text| {
        if file.starts_with(root.join("examples")) {
            shown += text;
        } else {
            let docs = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
            shown += &code(&docs.map(|line| format!("{line}\n")).collect::<String>());
        }
    });
    let words: BTreeSet<&str> = shown.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').collect();
    let missing: BTreeSet<&str> = names.into_iter().filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "no example shows {missing:?}");
}

#[test]
fn the_two_commands_are_the_ones_that_ci_runs() {
    let script = include_str!("../../.ci/run");
    for command in ["cargo run --example tour", "cargo test --all-features"] {
        assert!(README.lines().any(|line| line == command), "{command} is not in the README");
        assert!(script.lines().any(|line| line == command), "{command} is not in .ci/run");
    }
}

/// A doctest does not compile what stands below a `#[test]`, so the guide's tests live here, too.
#[cfg(feature = "testing")]
#[test]
fn the_tests_of_the_guide_are_run_here() {
    let of_this_file: Vec<&str> = include_str!("readme.rs").lines().map(str::trim).collect();
    let pages = pages();
    let blocks = pages.values().flat_map(|page| page.split("```").skip(1).step_by(2));
    let tests: Vec<&str> = blocks.filter(|block| block.contains("test]\n") || block.contains("test(")).collect();
    assert_eq!(tests.len(), 2, "blocks with tests");
    for block in tests {
        let lines: Vec<&str> = block.trim_matches('\n').lines().map(str::trim).collect();
        assert!(of_this_file.windows(lines.len()).any(|window| window == lines), "not in this file:\n{block}");
    }
}

#[cfg(feature = "testing")]
mod the_audit {
    use std::time::Duration;

    use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry, errors::CatalogError};

    fn retry() -> Result<SafeRetry, CatalogError> {
        Ok(SafeRetry::new().with_attempt_limit(Duration::from_secs(3)).with_catalog(catalog()?))
    }

    fn catalog() -> Result<EndpointCatalog, CatalogError> {
        let charge = Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments").with_deadline(Duration::from_secs(20));
        EndpointCatalog::new().with_row("https://api.stripe.com", Row::post("/v1/charges", charge))
    }

    #[test]
    fn no_write_is_left_unprotected() -> Result<(), CatalogError> {
        catalog()?.audit_for(&retry()?).assert_ready(); // or fails, with the whole table and what is missing in it
        Ok(())
    }
}

#[cfg(feature = "testing")]
mod the_clients_tests {
    use std::time::Duration;

    use reqwest_middleware::ClientBuilder;
    use reqwest_safe_retry::{
        SafeRetry,
        testing::{Fault, FaultServer, Scripted, Step},
    };

    #[tokio::test]
    async fn a_post_whose_answer_is_lost_is_sent_once() -> reqwest::Result<()> {
        let shop = FaultServer::start([Fault::close_after_request(), Fault::ok("order 2041")]).await;
        let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
        assert!(client.post(shop.url("/orders")).body("one coffee").send().await.is_err());
        shop.assert_writes(1);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_as_long_as_it_was_asked_to() -> reqwest_middleware::Result<()> {
        let shop = Scripted::new([Step::status(503).with_header("retry-after", "2"), Step::ok("menu")]);
        let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(shop.clone()).build();
        assert_eq!(client.get("http://shop.test/menu").send().await?.status(), 200);
        assert!(shop.pauses()[0] >= Duration::from_secs(2));
        Ok(())
    }
}
