//! `docs/tables.md` prints the three tables of the engine. It is generated here, by asking the
//! matches themselves about everything that there can be.

use std::{collections::BTreeSet, fmt::Debug, fs, time::Duration};

use http::StatusCode;

use crate::policy::{
    AnswerFacts, Effect, Ending, Evidence, History, KeyAnswer, Lapsed, LastAnswer, Outcome, RetryPolicy, ServerAdvice, Signal, StopReason,
    TooEarly, Verdict,
    effect::SAMPLES as EFFECTS,
    every_variant,
    outcome::End,
    protection::{Key, Occasion, Protection, protect},
    reading::Class,
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tables.md");
const REGENERATE: &str = "REGENERATE=1 cargo test --lib policy::tests::tables";
const README: &str = include_str!("../../../README.md");

#[test]
fn the_page_prints_the_tables_as_the_engine_has_them() {
    let page = page();
    if std::env::var_os("REGENERATE").is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    let printed = fs::read_to_string(PAGE).unwrap();
    assert!(printed == page, "docs/tables.md prints other tables. If the new ones are meant: {REGENERATE}\n\n{page}");
}

#[test]
fn the_readme_s_effect_table_has_every_effect() {
    for (name, ..) in EFFECTS {
        let effect = format!("`{}`", name.split(',').next().unwrap());
        assert!(README.lines().any(|line| line.starts_with("| `") && line.contains(&effect)), "{effect}");
    }
}

#[test]
fn a_remembered_key_protects_alike_with_a_probe_and_without() {
    let keyed = |lapsed| Effect::KeyedWrite { remembered_for: Duration::ZERO, lapsed };
    for (occasion, name) in OCCASIONS {
        let protections = every_variant!(Lapsed { Stop, Probe }).map(|lapsed| protect(keyed(lapsed), Key::Remembered, occasion));
        assert_eq!(protections[0], protections[1], "{name}");
    }
}

fn page() -> String {
    let statuses = RetryPolicy::DEFAULT.statuses();
    let answers: Vec<AnswerFacts> = all_answers().collect();
    format!(
        "\
# The three tables

What the engine decides, it decides by three tables. Each is one `match` without a catch-all arm, in
a file of its own. This page is generated from them, and a test compares:

    {REGENERATE}

1. [Reading](#reading): what an answer means. It gives a *signal*.
2. [Protection](#protection): why sending again is harmless after this signal, or why not.
3. [Outcome](#outcome): what is known once nothing more is sent.

## Reading

`src/policy/reading.rs`. The replay marker speaks first, then the endpoint's verdict, then the key's
contract, then the server's veto, last the policy's statuses.

{}
Where only the contract, a veto or the status speaks:

{}
By default the policy's statuses are {}.

`Answered` leaves it to the policy's statuses once more: with one of them it is a *retryable status*
in the next table, with any other it is final. `Final` is handed back. `Forbidden` ends the operation
with `ServerForbade`.

Where the body of the answer was lost, a final answer is no result:

{}
## Protection

`src/policy/protection.rs`. A cell is why the operation is sent again, `probe`, `return`, or why it
stops.

{}
## Outcome

`src/policy/outcome.rs`. The columns say what the operation is, whether a resend followed an attempt
whose result is unknown, and what the attempts prove.

{}
* A *final answer* is one with which the operation stops for the reason {}.
* A *possible echo* is a final answer {} without the contract's replay marker:
  an earlier success of our own could have caused it.
* An *open answer* is one with any other reason:
  {}.
",
        who_speaks(&answers),
        where_no_verdict_speaks(&answers),
        list(statuses.iter().map(|status| status.as_u16())),
        without_body(&answers),
        protection(),
        outcome(),
        list(stops(End::FinalAnswer)),
        list(echoes().iter().map(StatusCode::as_u16)),
        list(stops(End::OpenAnswer)),
    )
}

/// Rows: what the answer says about the key. Columns: the endpoint's verdict.
fn who_speaks(answers: &[AnswerFacts]) -> String {
    let verdicts = || VERDICTS.into_iter().map(Some).chain([None]);
    let mut table = Table::new("says about the key ↓ / verdict →", verdicts().map(named));
    for key_answer in KEY_ANSWERS.into_iter().map(Some).chain([None]) {
        table.row(
            &named(key_answer),
            verdicts().map(|verdict| {
                let facts = answers.iter().filter(|facts| (facts.key_answer, facts.verdict) == (key_answer, verdict));
                agreed(facts.map(meaning)).unwrap_or_else(|| "see below".to_owned())
            }),
        );
    }
    table.0
}

/// Rows: what the answer says about the key, and the veto. Columns: the status.
fn where_no_verdict_speaks(answers: &[AnswerFacts]) -> String {
    let classes = every_variant!(Class {
        Retryable => (Class::Retryable, "one of the policy's statuses"),
        OtherError => (Class::OtherError, "another 4xx or 5xx"),
        NoError => (Class::NoError, "any other"),
        SecondTooEarly => (Class::SecondTooEarly, "a second 425"),
    });
    let mut table = Table::new("says about the key, veto ↓ / status →", classes.map(|(_, name)| name.to_owned()));
    for key_answer in [Some(KeyAnswer::InUse), None] {
        for veto in ADVICE.into_iter().map(Some).chain([None]) {
            table.row(
                &format!("{}, {}", named(key_answer), named(veto)),
                classes.map(|(class, _)| {
                    let silent = |facts: &AnswerFacts| (facts.key_answer, facts.verdict, facts.server_advice) == (key_answer, None, veto);
                    let facts = answers.iter().filter(|facts| silent(facts) && class_of(facts) == class);
                    agreed(facts.map(meaning)).unwrap()
                }),
            );
        }
    }
    table.0
}

fn without_body(answers: &[AnswerFacts]) -> String {
    let class = |facts: &AnswerFacts| match (meaning(facts).as_str(), class_of(facts)) {
        ("Answered", Class::Retryable) => "Answered, one of the policy's statuses".to_owned(),
        ("Answered", Class::OtherError | Class::NoError | Class::SecondTooEarly) => "Answered, any other status".to_owned(),
        (signal, _) => signal.to_owned(),
    };
    let signals: BTreeSet<String> = answers.iter().map(class).collect();
    let mut table = Table::new("with its body", ["without its body".to_owned()]);
    for signal in signals {
        let facts = answers.iter().filter(|facts| class(facts) == signal);
        table.row(&signal, [agreed(facts.map(|facts| word(RetryPolicy::DEFAULT.read_without_body(facts)))).unwrap()]);
    }
    table.0
}

fn protection() -> String {
    let mut table = Table::new("effect ↓ / what happened →", OCCASIONS.map(|(_, name)| name.to_owned()));
    for (name, effect, key_age) in EFFECTS {
        let key = Key::of_age(key_age, effect);
        table.row(
            name,
            OCCASIONS.map(|(occasion, _)| match protect(effect, key, occasion) {
                Protection::Resend(reason) => format!("{reason:?}"),
                Protection::Probe => "probe".to_owned(),
                Protection::Return => "return".to_owned(),
                Protection::Stop(reason) => format!("stop {reason:?}"),
            }),
        );
    }
    table.0
}

fn outcome() -> String {
    let columns = [Evidence::Unprocessed, Evidence::Unknown].map(|evidence| HISTORIES.map(|(history, name)| (history, name, evidence)));
    let columns = columns.as_flattened();
    let mut table = Table::new("ends with ↓ / is →", columns.iter().map(|(_, name, evidence)| format!("{name}, {evidence}")));
    let ends = every_variant!(End {
        Probed => (End::Probed, "the probe found it applied"),
        FinalAnswer => (End::FinalAnswer, "final answer"),
        PossibleEcho => (End::PossibleEcho, "possible echo"),
        OpenAnswer => (End::OpenAnswer, "open answer"),
        NoAnswer => (End::NoAnswer, "no answer"),
    });
    let endings: Vec<Ending> = all_endings().collect();
    for (end, name) in ends {
        table.row(
            name,
            columns.iter().map(|(history, _, evidence)| {
                let of_cell = |ending: &&Ending| (End::of(ending), ending.history, ending.evidence) == (end, *history, *evidence);
                agreed(endings.iter().filter(of_cell).map(|ending| format!("{:?}", Outcome::of(ending)))).unwrap()
            }),
        );
    }
    table.0
}

/// The reasons that make this of an answer with a usual status.
fn stops(end: End) -> impl Iterator<Item = StopReason> {
    let ending = |stop| Ending::new(stop, LastAnswer::Server(StatusCode::OK), History::Write, Evidence::Unknown);
    StopReason::ALL.into_iter().filter(move |stop| End::of(&ending(*stop)) == end)
}

/// The statuses that may be an echo where no key is in play.
fn echoes() -> Vec<StatusCode> {
    let ending = |status| Ending::new(StopReason::AnswerIsFinal, LastAnswer::Server(status), History::Write, Evidence::Unknown);
    all_statuses().filter(|status| End::of(&ending(*status)) == End::PossibleEcho).collect()
}

const KEY_ANSWERS: [KeyAnswer; 3] = every_variant!(KeyAnswer { Replayed, Mismatch, InUse });
const VERDICTS: [Verdict; 5] = every_variant!(Verdict { Final, Resendable, Overloaded, KeyInUse, Forbidden });
const ADVICE: [ServerAdvice; 2] = every_variant!(ServerAdvice { Forbid, Resend });
const OCCASIONS: [(Occasion, &str); 7] = every_variant!(Occasion {
    RetryableStatus => (Occasion::RetryableStatus, "retryable status"),
    ProvenUnprocessed => (Occasion::ProvenUnprocessed, "proven unprocessed so far"),
    FailedUnknown => (Occasion::FailedUnknown, "failed, unknown"),
    BodyLost => (Occasion::BodyLost, "body lost after a final status"),
    KeyInUse => (Occasion::KeyInUse, "key in use"),
    ProbedAbsent => (Occasion::ProbedAbsent, "probe found nothing"),
    SentBefore => (Occasion::SentBefore, "sent before by another process"),
});
const HISTORIES: [(History, &str); 3] = every_variant!(History {
    Read => (History::Read, "read"),
    Write => (History::Write, "write"),
    WriteAfterUnknown => (History::WriteAfterUnknown, "write after an unknown attempt"),
});

fn all_statuses() -> impl Iterator<Item = StatusCode> + Clone {
    (100..1000).map(|code| StatusCode::from_u16(code).unwrap())
}

/// Every set of facts that there is.
fn all_answers() -> impl Iterator<Item = AnswerFacts> {
    let too_early = every_variant!(TooEarly { Unheard, Heard });
    let statuses = all_statuses().flat_map(move |status| too_early.map(|heard| AnswerFacts::new(status).with_too_early(heard)));
    let keyed = statuses.flat_map(|facts| KEY_ANSWERS.map(|answer| facts.with_key_answer(answer)).into_iter().chain([facts]));
    let judged = keyed.flat_map(|facts| VERDICTS.map(|verdict| facts.with_verdict(verdict)).into_iter().chain([facts]));
    judged.flat_map(|facts| ADVICE.map(|veto| facts.with_server_advice(veto)).into_iter().chain([facts]))
}

/// Every end that there is.
fn all_endings() -> impl Iterator<Item = Ending> {
    let answers = all_statuses()
        .flat_map(|status| [LastAnswer::Server(status), LastAnswer::WithoutBody(status)])
        .chain([LastAnswer::None, LastAnswer::Probe]);
    let ends = answers.flat_map(|answer| StopReason::ALL.map(|stop| (stop, answer)));
    let known = ends.flat_map(|(stop, answer)| {
        HISTORIES.into_iter().flat_map(move |(history, _)| {
            [Evidence::Unprocessed, Evidence::Unknown].map(|evidence| Ending::new(stop, answer, history, evidence))
        })
    });
    known.flat_map(|ending| KEY_ANSWERS.map(|answer| ending.with_key_answer(answer)).into_iter().chain([ending]))
}

fn class_of(facts: &AnswerFacts) -> Class {
    Class::of(facts.status, RetryPolicy::DEFAULT.statuses(), facts.too_early)
}

fn meaning(facts: &AnswerFacts) -> String {
    word(RetryPolicy::DEFAULT.read(facts))
}

/// The name of a signal, without its status.
fn word(signal: Signal) -> String {
    format!("{signal:?}").split('(').next().unwrap().to_owned()
}

fn named(fact: Option<impl Debug>) -> String {
    fact.map_or_else(|| "nothing".to_owned(), |fact| format!("{fact:?}"))
}

/// What all say, if they agree.
fn agreed(mut said: impl Iterator<Item = String>) -> Option<String> {
    let first = said.next().unwrap();
    said.all(|other| other == first).then_some(first)
}

fn list(items: impl Iterator<Item = impl Debug>) -> String {
    items.map(|item| format!("{item:?}")).collect::<Vec<_>>().join(", ")
}

/// A Markdown table in the making.
struct Table(String);

impl Table {
    fn new(corner: &str, columns: impl IntoIterator<Item = String>) -> Self {
        let columns: Vec<String> = columns.into_iter().collect();
        let rule = "|---".repeat(columns.len() + 1);
        Self(format!("| {corner} | {} |\n{rule}|\n", columns.join(" | ")))
    }

    fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.0.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
    }
}
