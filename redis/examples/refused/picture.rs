//! Refused requests, added up over time.

use std::{error::Error, path::Path, time::Duration};

use plotters::prelude::*;

/// One fleet.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// When each request was refused.
    pub(crate) refused: Vec<Duration>,
}

const FONT: &str = "Helvetica, Arial, sans-serif";
const INK: RGBColor = RGBColor(0x26, 0x2A, 0x30);
const FAINT: RGBColor = RGBColor(0x6B, 0x72, 0x80);
const GRID: RGBColor = RGBColor(0xE5, 0xE7, 0xEB);
const SHADE: RGBColor = RGBColor(0xE3, 0xE6, 0xEA);
/// Colours that colour-blind people can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 2] = [RGBColor(0xD5, 0x5E, 0x00), RGBColor(0x00, 0x72, 0xB2)];

pub(crate) fn draw(file: &Path, lines: &[Line], wait: Duration, apart: Duration) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::new(file, (1080, 430)).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: u32, colour: RGBColor| (FONT, size).into_font().color(&colour);
    root.draw(&Text::new("What an upstream has to refuse", (24, 16), text(22, INK)))?;
    let subtitle = "20 processes with 20 requests a second each meet three waits of 5 s (shaded): requests refused, added up.";
    root.draw(&Text::new(subtitle, (24, 46), text(14, FAINT)))?;
    let most = lines.iter().map(|line| line.refused.len()).max().unwrap_or_default() as f64;
    let (end, top) = (3.0 * apart.as_secs_f64(), 1.15 * most.max(1.0));
    let mut chart = ChartBuilder::on(&root);
    chart.margin(20).margin_top(76).margin_right(150);
    chart.set_label_area_size(LabelAreaPosition::Left, 56).set_label_area_size(LabelAreaPosition::Bottom, 42);
    let mut panel = chart.build_cartesian_2d(0.0..end, 0.0..top)?;
    let waits = (0..3).map(|nth| f64::from(nth) * apart.as_secs_f64());
    panel.draw_series(waits.map(|from| Rectangle::new([(from, 0.0), (from + wait.as_secs_f64(), top)], SHADE.filled())))?;
    let mut mesh = panel.configure_mesh();
    mesh.disable_x_mesh().light_line_style(TRANSPARENT).bold_line_style(GRID).axis_style(FAINT).label_style(text(12, FAINT));
    mesh.axis_desc_style(text(13, INK)).x_desc("seconds").y_desc("requests refused").draw()?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        let mut steps = vec![(0.0, 0.0)];
        for (nth, at) in line.refused.iter().enumerate() {
            steps.extend([(at.as_secs_f64(), nth as f64), (at.as_secs_f64(), nth as f64 + 1.0)]);
        }
        steps.push((end, line.refused.len() as f64));
        let label = format!("{}: {}", line.name, line.refused.len());
        panel.draw_series(LineSeries::new(steps, colour.stroke_width(3)))?;
        let (x, y) = panel.backend_coord(&(end, line.refused.len() as f64));
        root.draw(&Text::new(label, (x + 10, y - 8), (FONT, 16).into_font().style(FontStyle::Bold).color(&colour)))?;
    }
    Ok(root.present()?)
}
