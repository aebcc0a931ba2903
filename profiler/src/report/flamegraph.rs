//! Flame graphs, drawn by inferno.

use std::cell::RefCell;
use std::io::Write;

use anyhow::{Context as _, bail};
use inferno::flamegraph::color::{BackgroundColor, Color, MultiPalette, Palette, PaletteMap};
use inferno::flamegraph::{Options, from_lines};

use super::escape::{sanitize, sanitize_to};
use super::folded::{Folded, name};
use super::text::kind_summary;
use crate::profile::units;
use crate::profile::{Finding, Frame, GroupBy, Kind, Label, Origin, Session};

/// Frames narrower than this are left out, in percent of the width: a tenth of a pixel on a wide screen.
/// It bounds the size of the file, however many stacks there are.
const MIN_WIDTH: f64 = 0.01;
/// Levels drawn at most. No collector walks deeper; a file of another tool might be made to.
const LEVELS: usize = 512;
/// Functions that findings point at, and no others, are yellow.
const MARKED: Color = Color { r: 255, g: 235, b: 0 };
/// inferno adds weights up in 64 bits and draws with 53: larger sums are scaled down.
const LARGEST: u128 = 1 << 53;

/// Writes the flame graph of one kind as SVG: kernel frames in orange, user frames in blue-green, thread
/// names below them in green. Functions that findings point at are yellow, with the findings' ids behind their names.
///
/// # Errors
///
/// When the session has no stacks of this kind, or when writing fails.
pub fn write(session: &Session, kind: Kind, out: &mut dyn Write) -> anyhow::Result<()> {
    draw(session, kind, options(session, kind), out)
}

fn options(session: &Session, kind: Kind) -> Options<'static> {
    let mut options = Options::default();
    options.title = kind.heading();
    options.subtitle = Some(subtitle(session, kind));
    options.count_name = kind.unit().name().to_owned();
    // Of inferno's palettes this one goes by annotations alone where every frame has one. A name keeps
    // its shade from graph to graph, so that two of them can be compared.
    options.colors = Palette::Multi(MultiPalette::Java);
    options.bgcolors = Some(BackgroundColor::Grey);
    options.deterministic = true;
    options.min_width = MIN_WIDTH;
    options
}

fn draw(session: &Session, kind: Kind, options: Options<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let marked = RefCell::new(PaletteMap::default());
    let folded = Folded::new(&session.profile, kind, None, |label| match label {
        Label::Frame(frame) => {
            let side = if frame.origin == Origin::Kernel { "_[k]" } else { "_[i]" };
            let plain = name(&frame.qualified());
            match findings_at(frame, kind, session) {
                ids if ids.is_empty() => plain + side,
                ids => {
                    let text = plain + &name(&format!(" <-- {}", ids.join(", "))) + side;
                    marked.borrow_mut().insert(&text, MARKED);
                    text
                }
            }
        }
        Label::Group(GroupBy::Comm, comm) => name(comm) + "_[j]",
        label => name(&label.name()) + "_[i]",
    })?;
    let total = folded.total();
    if total == 0 {
        bail!("there are no {} stacks to draw a flame graph of", kind.name());
    }
    let mut shift = 0;
    while total >> shift > LARGEST {
        shift += 1;
    }

    let least = (total as f64 * MIN_WIDTH / 100.0) as u64;
    let mut lines = Vec::new();
    folded.for_each(least.max(1), LEVELS, |stack, weight| {
        lines.push(format!("{stack} {}", weight >> shift));
        Ok(())
    })?;
    let mut marked = marked.into_inner();
    let mut options = options;
    options.factor = (1u64 << shift) as f64;
    options.palette_map = Some(&mut marked);
    from_lines(&mut options, lines.iter().map(String::as_str), out)
        .with_context(|| format!("cannot write the {} flame graph", kind.name()))
}

/// Ids of the findings that point at a function.
fn findings_at<'s>(frame: &Frame, kind: Kind, session: &'s Session) -> Vec<&'s str> {
    let points = |finding: &&Finding| {
        finding
            .marks
            .iter()
            .any(|mark| mark.kind.is_none_or(|only| only == kind) && frame.is_called(&mark.frame))
    };
    let mut ids: Vec<&str> = session.findings.iter().filter(points).map(|finding| &*finding.id).collect();
    // Several findings of one pathology may point at one function.
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// `1,234 bytes (1.21 KiB) in 30.0 s on host, Linux 6.12.9`.
fn subtitle(session: &Session, kind: Kind) -> String {
    let host = &session.host;
    let mut text = kind_summary(session, kind, session.profile.total(kind));
    if session.duration_ns > 0 {
        text.push_str(&format!(" in {}", units::duration(session.duration_ns as f64)));
    }
    if !host.hostname.is_empty() {
        text.push_str(&format!(" on {}", sanitize_to(&host.hostname, 64)));
    }
    if !host.kernel.is_empty() {
        text.push_str(&format!(", Linux {}", sanitize(&host.kernel)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Labels, Source};
    use crate::testing::{findings, kernel, push, session};

    /// Without the script that inferno adds, which is its own.
    fn plain(session: &Session, kind: Kind) -> String {
        let mut options = options(session, kind);
        options.no_javascript = true;
        options.pretty_xml = true;
        let mut out = Vec::new();
        draw(session, kind, options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn drawing() {
        insta::assert_snapshot!(plain(&session(), Kind::Cpu));
    }

    #[test]
    fn every_kind_can_be_drawn_and_comes_out_the_same() {
        let mut session = session();
        let labels = session.profile.intern_labels(crate::profile::Labels::default());
        push(&mut session.profile, Kind::Reclaim, labels, &[kernel("try_to_free_pages")], 1_000_000);
        for kind in Kind::ALL {
            let [mut first, mut second] = [Vec::new(), Vec::new()];
            write(&session, kind, &mut first).unwrap();
            write(&session, kind, &mut second).unwrap();
            assert!(first == second, "{kind:?}");
        }
    }

    #[test]
    fn hostile_names_are_text() {
        let svg = plain(&session(), Kind::Cpu);
        assert!(!svg.contains("<script>"));
        assert!(svg.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        // What XML 1.0 allows (section 2.2).
        let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        assert!(svg.chars().all(allowed));
    }

    #[test]
    fn frames_are_told_apart_by_color() {
        let svg = plain(&session(), Kind::Cpu);
        let fill = |name: &str| {
            let after = svg.split(&format!("<title>{name} (")).nth(1).unwrap();
            let color = after.split("rgb(").nth(1).unwrap().split(')').next().unwrap();
            color.split(',').map(|part| part.parse().unwrap()).collect::<Vec<u8>>()
        };
        let (kernel, user, comm) = (fill("do_syscall_64"), fill("main [fio]"), fill("fio"));
        assert!(kernel[0] > kernel[1] && kernel[2] == 0, "{kernel:?} is orange");
        assert!(user[0] < user[1] && user[1] == user[2], "{user:?} is blue-green");
        assert!(comm[1] > comm[0] && comm[1] > comm[2], "{comm:?} is green");
    }

    #[test]
    fn what_findings_point_at_stands_out() {
        let session = Session { findings: findings(), ..session() };
        let title = "<title>bch2_bio_alloc_pages_pool [bcachefs] &lt;-- read-amplification (";
        let cpu = plain(&session, Kind::Cpu);
        let after = cpu.split(title).nth(1).expect("marked");
        assert!(after.split("fill=").nth(1).unwrap().starts_with("\"rgb(255,235,0)\""));
        let marked = |line: &&str| line.contains("<title>") && line.contains(" &lt;-- rea");
        let frames = cpu.lines().filter(marked).count();
        assert!(frames > 1);
        assert_eq!(cpu.matches("rgb(255,235,0)").count(), frames);
        assert!(!plain(&session, Kind::Bio).contains("rgb(255,235,0)"));
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let error = write(&Session::new(Source::Live), Kind::Bio, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "there are no bio stacks to draw a flame graph of");
    }

    #[test]
    fn huge_weights_and_many_frames_stay_small() {
        let mut session = Session::new(Source::Live);
        let labels = session.profile.intern_labels(Labels::default());
        for index in 0..50_000 {
            push(&mut session.profile, Kind::LockWait, labels, &[kernel(&format!("f{index}"))], 1 << 30);
        }
        for name in ["heavy", "heavier"] {
            push(&mut session.profile, Kind::LockWait, labels, &[kernel(name)], u64::MAX);
        }
        let mut out = Vec::new();
        write(&session, Kind::LockWait, &mut out).unwrap();
        assert!(out.len() < 100_000, "{}", out.len());
        assert!(String::from_utf8(out).unwrap().contains("heavier (18,4"));
    }
}
