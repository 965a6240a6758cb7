//! The pictures: what happened, at a glance. Colours that colour-blind people can tell apart (Okabe
//! and Ito).

use std::{error::Error, path::Path};

use plotters::{
    chart::ChartContext,
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use crate::model::{
    contention::{self, Algorithm},
    failures::{self, Strategy},
    fleet::{self, Budget},
    outage::{BEGINS, Behaviour, ENDS, Scene, Second, Storm},
};

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Panel<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The seconds shown, counted from the beginning of the outage.
const FROM: f64 = -15.0;
const TO: f64 = 75.0;

const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(0x26, 0x2A, 0x30);
const FAINT: RGBColor = RGBColor(0x6B, 0x72, 0x80);
const GRID: RGBColor = RGBColor(0xE5, 0xE7, 0xEB);
const SHADE: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);

const GREY: RGBColor = RGBColor(0x59, 0x5F, 0x69);
const LIGHT: RGBColor = RGBColor(0xA4, 0xA8, 0xAE);
const VERMILLION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);

fn colour(behaviour: Behaviour) -> RGBColor {
    match behaviour {
        Behaviour::NoResends => GREY,
        Behaviour::AtOnce => VERMILLION,
        Behaviour::Unjittered => ORANGE,
        Behaviour::Jittered => PURPLE,
        Behaviour::Budget => BLUE,
        Behaviour::CoolDown | Behaviour::CoolDownOfAll => GREEN,
    }
}

fn text(size: u32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().color(&colour)
}

fn bold(size: u32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().style(FontStyle::Bold).color(&colour)
}

/// Title and subtitle; the rest of the sheet is left.
fn sheet<'a>(root: &Area<'a>, title: &str, subtitle: &str) -> Result<Area<'a>, Box<dyn Error>> {
    root.fill(&WHITE)?;
    root.draw(&Text::new(title.to_owned(), (24, 18), bold(22, INK)))?;
    root.draw(&Text::new(subtitle.to_owned(), (24, 48), text(14, FAINT)))?;
    Ok(root.margin(74, 6, 12, 18))
}

/// How many requests reach the server, behaviour by behaviour.
pub(crate) fn load(file: &Path, storms: &[Storm]) -> Drawn {
    let root = SVGBackend::new(file, (1080, 650)).into_drawing_area();
    let Scene { instances, clients_each, offered, capacity, .. } = storms.first().ok_or("no storm")?.scene;
    let subtitle = format!(
        "{} clients in {instances} instances start {offered} operations a second. The server, which can answer {} requests a second, stalls for 30 s.",
        thousands(instances * clients_each),
        thousands(capacity)
    );
    let sheet = sheet(&root, "What reaches the server: requests a second", &subtitle)?;
    let (panels, legend) = sheet.split_vertically(535);
    let full = f64::from(capacity);
    outage_panels(&panels, "requests / s", 3.5 * full, storms, |panel, storm| {
        let (colour, sends) = (colour(storm.behaviour), series(storm, |second| second.sends));
        panel.draw_series(AreaSeries::new(sends.iter().map(|&(at, sends)| (at, sends.min(full))), 0.0, colour.mix(0.35)))?;
        panel.draw_series(AreaSeries::new(sends.iter().map(|&(at, sends)| (at, sends.max(full))), full, colour))?;
        panel.draw_series(LineSeries::new(sends, colour.stroke_width(2)))?;
        dashed(panel, full)?;
        let [out, after] = [(BEGINS, ENDS), (ENDS + 30, storm.settled())].map(|(from, to)| storm.load(from, to));
        Ok(format!("{out:.1} requests for an operation in the outage, {after:.1} after"))
    })?;
    legend_line(&legend, &[("outage", Mark::Block(SHADE)), ("capacity", Mark::Dashes), ("more than it can answer", Mark::Block(GREY))])?;
    Ok(root.present()?)
}

/// How many answers come in time, behaviour by behaviour.
pub(crate) fn goodput(file: &Path, storms: &[Storm]) -> Drawn {
    let root = SVGBackend::new(file, (1080, 650)).into_drawing_area();
    let offered = f64::from(storms.first().ok_or("no storm")?.scene.offered);
    let subtitle = "The same storms. After the outage, the server works on requests that nobody waits for any more; resends keep it at that, unless a budget bounds them.";
    let sheet = sheet(&root, "What the clients get: answers in time a second", subtitle)?;
    let (panels, legend) = sheet.split_vertically(535);
    outage_panels(&panels, "answers / s", 2.0 * offered, storms, |panel, storm| {
        let (colour, answers) = (colour(storm.behaviour), series(storm, |second| second.goodput));
        panel.draw_series(AreaSeries::new(answers.iter().copied(), 0.0, colour.mix(0.55)))?;
        panel.draw_series(LineSeries::new(answers, colour.stroke_width(2)))?;
        dashed(panel, offered)?;
        Ok(storm.recovery().map_or("does not recover".into(), |seconds| format!("recovers in {seconds} s")))
    })?;
    legend_line(
        &legend,
        &[("outage", Mark::Block(SHADE)), ("operations started", Mark::Dashes), ("answered in time", Mark::Block(LIGHT))],
    )?;
    Ok(root.present()?)
}

/// One panel for each behaviour; `draw` says what came out.
fn outage_panels(
    area: &Area<'_>,
    unit: &str,
    top: f64,
    storms: &[Storm],
    draw: impl Fn(&mut Panel<'_, '_>, &Storm) -> Result<String, Box<dyn Error>>,
) -> Drawn {
    // The seventh behaviour is a variant of the sixth: it stands in the table.
    let shown = storms.iter().filter(|storm| storm.behaviour != Behaviour::CoolDownOfAll);
    for (place, (storm, area)) in shown.zip(area.split_evenly((2, 3))).enumerate() {
        let outer = area.margin(4, 8, 10, 14);
        let mut chart = ChartBuilder::on(&outer);
        chart.margin_top(46).set_label_area_size(LabelAreaPosition::Left, 52).set_label_area_size(LabelAreaPosition::Bottom, 40);
        let mut panel = chart.build_cartesian_2d(FROM..TO, 0.0..top)?;
        panel.draw_series([Rectangle::new([(0.0, 0.0), (f64::from(ENDS - BEGINS), top)], SHADE.filled())])?;
        let mut mesh = panel.configure_mesh();
        mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(FAINT).label_style(text(12, FAINT));
        mesh.x_labels(6).y_labels(4).x_label_formatter(&|at| format!("{at:.0}")).y_label_formatter(&|rate| thousands(*rate as u32));
        if place % 3 == 0 {
            mesh.y_desc(unit);
        }
        if place >= 3 {
            mesh.x_desc("seconds since the outage began");
        }
        mesh.axis_desc_style(text(13, INK)).draw()?;
        let found = draw(&mut panel, storm)?;
        outer.draw(&Text::new(storm.behaviour.name(), (52, 4), bold(16, darker(colour(storm.behaviour)))))?;
        outer.draw(&Text::new(found, (52, 25), text(13, INK)))?;
    }
    Ok(())
}

fn series(storm: &Storm, of: impl Fn(&Second) -> u32) -> Vec<(f64, f64)> {
    let at = |second: usize| second as f64 + 0.5 - f64::from(BEGINS);
    let seconds = storm.seconds.iter().enumerate().map(|(second, counts)| (at(second), f64::from(of(counts))));
    seconds.filter(|(at, _)| (FROM..=TO).contains(at)).collect()
}

fn dashed(panel: &mut Panel<'_, '_>, height: f64) -> Drawn {
    panel.draw_series(DashedLineSeries::new([(FROM, height), (TO, height)], 9, 7, INK.stroke_width(1)))?;
    Ok(())
}

/// Text of a light colour is hard to read on white.
fn darker(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let less = |channel: u8| (f64::from(channel) * 0.82) as u8;
    RGBColor(less(red), less(green), less(blue))
}

enum Mark {
    Block(RGBColor),
    Dashes,
    Line(RGBColor),
    Ring,
}

fn legend_line(area: &Area<'_>, entries: &[(&str, Mark)]) -> Drawn {
    let (mut x, y) = (66, 8);
    for (words, mark) in entries {
        match mark {
            Mark::Block(colour) => area.draw(&Rectangle::new([(x, y), (x + 26, y + 12)], colour.filled()))?,
            Mark::Line(colour) => area.draw(&PathElement::new([(x, y + 6), (x + 26, y + 6)], colour.stroke_width(3)))?,
            Mark::Ring => area.draw(&Circle::new((x + 13, y + 6), 5, INK.stroke_width(1)))?,
            Mark::Dashes => {
                for dash in [0, 10, 20] {
                    area.draw(&PathElement::new([(x + dash, y + 6), (x + dash + 6, y + 6)], INK.stroke_width(1)))?;
                }
            }
        }
        let style = text(13, INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw(&Text::new((*words).to_owned(), (x + 34, y + 6), style))?;
        x += 66 + 7 * words.len() as i32;
    }
    Ok(())
}

/// One line: its name, its colour, its points and the published ones.
struct Curve {
    name: &'static str,
    colour: RGBColor,
    ours: Vec<(f64, f64)>,
    theirs: Vec<(f64, f64)>,
}

fn curves(panel: &mut Panel<'_, '_>, curves: &[Curve]) -> Drawn {
    for Curve { colour, ours, theirs, .. } in curves {
        panel.draw_series(LineSeries::new(ours.iter().copied(), colour.stroke_width(3)))?;
        panel.draw_series(theirs.iter().map(|&point| Circle::new(point, 5, INK.stroke_width(1))))?;
    }
    Ok(())
}

fn curve_legend(area: &Area<'_>, curves: &[Curve]) -> Drawn {
    let lines = curves.iter().map(|curve| (curve.name, Mark::Line(curve.colour)));
    let published = curves.iter().any(|curve| !curve.theirs.is_empty()).then_some(("published", Mark::Ring));
    legend_line(area, &lines.chain(published).collect::<Vec<_>>())
}

/// What both charts of a pair have below them.
struct Below {
    what: &'static str,
    range: std::ops::Range<f64>,
    label: fn(&f64) -> String,
}

/// Two charts side by side over the same x.
fn pair(file: &Path, title: &str, subtitle: &str, x: Below, charts: [(&str, f64, Vec<Curve>); 2]) -> Drawn {
    let root = SVGBackend::new(file, (1080, 470)).into_drawing_area();
    let sheet = sheet(&root, title, subtitle)?;
    let (panels, legend) = sheet.split_vertically(355);
    for ((unit, top, lines), area) in charts.iter().zip(panels.split_evenly((1, 2))) {
        let area = area.margin(4, 4, 10, 14);
        let mut chart = ChartBuilder::on(&area);
        chart.set_label_area_size(LabelAreaPosition::Left, 66).set_label_area_size(LabelAreaPosition::Bottom, 42);
        let mut panel = chart.margin_top(8).build_cartesian_2d(x.range.clone(), 0.0..*top)?;
        let label = |height: &f64| if *top < 10.0 { format!("{height:.1}") } else { thousands(*height as u32) };
        let mut mesh = panel.configure_mesh();
        mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(FAINT).label_style(text(12, FAINT));
        mesh.y_labels(6).x_label_formatter(&x.label);
        mesh.y_label_formatter(&label);
        mesh.axis_desc_style(text(13, INK)).x_desc(x.what).y_desc(*unit).draw()?;
        curves(&mut panel, lines)?;
        if let Some((_, _, lines)) = charts.first().filter(|(first, ..)| first == unit) {
            curve_legend(&legend, lines)?;
        }
    }
    Ok(root.present()?)
}

/// The AWS simulation: calls and time against the number of clients.
pub(crate) fn contention(file: &Path, cells: &[contention::Cell], runs: u32) -> Drawn {
    let shown = [
        (Algorithm::None, "no backoff", VERMILLION),
        (Algorithm::Exponential, "exponential", ORANGE),
        (Algorithm::EqualJitter, "equal jitter", PURPLE),
        (Algorithm::Decorrelated, "decorrelated", GREY),
        (Algorithm::FullJitter, "full jitter", BLUE),
    ];
    let lines = |which: usize| {
        shown.map(|(algorithm, name, colour)| {
            let points = cells.iter().filter(|cell| cell.algorithm == algorithm);
            let [ours, theirs] = [0, 1].map(|whose| {
                let points = points.clone().map(|cell| {
                    let (_, ours, theirs, _) = contention::published(cell, runs)[which];
                    (cell.clients as f64, if whose == 0 { ours } else { theirs } / if which == 0 { 1.0 } else { 1e3 })
                });
                points.collect()
            });
            Curve { name, colour, ours, theirs }
        })
    };
    pair(
        file,
        "What jitter is for: clients that compete for one row",
        "Each client wants one successful write under optimistic concurrency control (\"Exponential Backoff And Jitter\", AWS). Exponential would leave the right chart: 101 s.",
        Below { what: "competing clients", range: 0.0..200.0, label: |at| format!("{at:.0}") },
        [
            ("calls, all clients together", 8500.0, lines(0).into()),
            ("seconds until all are done", 12.0, lines(1).into_iter().filter(|curve| curve.name != "exponential").collect()),
        ],
    )
}

/// Brooker's simulation: load and success against the share of attempts that fail.
pub(crate) fn failures(file: &Path, cells: &[failures::Cell]) -> Drawn {
    let shown = [
        (Strategy::NoResends, "no resends", GREY),
        (Strategy::ThreeResends, "up to three resends", VERMILLION),
        (Strategy::Breaker, "breaker at 10 %", ORANGE),
        (Strategy::Bucket, "budget of 10 %", BLUE),
    ];
    let lines = |of: fn(&failures::Cell) -> [f64; 2]| {
        shown.map(|(strategy, name, colour)| {
            let points = cells.iter().filter(|cell| cell.strategy == strategy);
            let [ours, theirs] = [0, 1].map(|whose| points.clone().map(|cell| (100.0 * cell.rate, of(cell)[whose])).collect());
            Curve { name, colour, ours, theirs }
        })
    };
    pair(
        file,
        "What a budget is for: resends when each attempt may fail",
        "A budget heals what is rare and bounds what it costs when everything fails (\"Fixing retries with token buckets and circuit breakers\", M. Brooker).",
        Below { what: "attempts that fail, %", range: 0.0..100.0, label: |at| format!("{at:.0}") },
        [
            ("requests for a call", 4.2, lines(|cell| [cell.load, cell.published("load_ratio")]).into()),
            ("share of calls that succeed", 1.05, lines(|cell| [cell.success, cell.published("success_ratio")]).into()),
        ],
    )
}

/// Budgets that know nothing of each other: what they let out, and what they heal, against the
/// number of processes.
pub(crate) fn fleet(file: &Path, cells: &[fleet::Cell]) -> Drawn {
    let shown = [
        (Budget::Default, "20 % + reserve each", VERMILLION),
        (Budget::Fleet, "20 % each (FLEET)", BLUE),
        (Budget::FleetMinute, "FLEET, saved for a minute", GREEN),
        (Budget::Shared, "one budget for all, at best", GREY),
    ];
    let lines = |of: fn(&fleet::Cell) -> f64| {
        shown.map(|(budget, name, colour)| {
            let points = cells.iter().filter(|cell| cell.budget == budget);
            let ours = points.map(|cell| ((cell.processes as f64).log10(), of(cell))).collect();
            Curve { name, colour, ours, theirs: Vec::new() }
        })
    };
    pair(
        file,
        "What a reserve costs a fleet: the same traffic, spread over ever more processes",
        "40 operations a second in all, each process with a budget of its own. Shares of the traffic add up; reserves multiply.",
        Below { what: "processes", range: 0.0..3.0, label: |power| format!("{:.0}", 10_f64.powf(*power)) },
        [
            ("requests for an operation, outage", 3.2, lines(|cell| cell.load).into()),
            ("everyday failures healed, share", 1.05, lines(|cell| cell.healed).into()),
        ],
    )
}

fn thousands(number: u32) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000.. => format!("{} {:03}", number / 1_000, number % 1_000),
    }
}
