//! The report for programs: everything in session.json, the heaviest functions and the call trees.
//! docs/recording-format.md describes it.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Context as _;
use serde::Serialize;

use super::escape::is_harmless;
use super::names;
use super::selection::{Selection, marked, trees};
use crate::diagnose::{Unseen, unseen};
use crate::profile::{self, CallTree, Frame, Kind, Label, NodeId, Origin, Session, Unit, View};

/// Functions of a flat profile at most.
const FUNCTIONS: usize = 100;

#[derive(Serialize)]
struct Report<'s> {
    #[serde(flatten)]
    session: &'s Session,
    unseen: Vec<Unseen>,
    /// By name of the kind.
    stacks: BTreeMap<&'static str, Stacks<'s>>,
}

/// What there is of one kind.
#[derive(Serialize)]
struct Stacks<'s> {
    unit: Unit,
    total: u64,
    flat: Vec<Function<'s>>,
    /// Nodes in the order of the text report: a parent, its children, its next sibling. Not nested, since
    /// many readers of JSON give up below a hundred levels.
    tree: Vec<Node>,
}

#[derive(Serialize)]
struct Function<'s> {
    name: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    weight: u64,
    share: f64,
}

#[derive(Serialize)]
struct Node {
    depth: usize,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    weight: u64,
    self_weight: u64,
    share: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<String>,
}

/// Writes the report of a session as JSON, the trees as `view` wants them.
///
/// # Errors
///
/// When `view` is about a function that is in no stack of any kind (the cause is a
/// [`ViewError`](profile::ViewError)), or when writing fails.
pub fn render(session: &Session, view: &View, out: &mut dyn Write) -> anyhow::Result<()> {
    let view = names::resolve(&session.profile, view);
    let stacks = trees(session, &view)?
        .into_iter()
        .map(|(kind, tree)| {
            let nodes = tree.map_or_else(|_| Vec::new(), |tree| nodes(&tree, &view, session));
            (kind.name(), Stacks::new(session, kind, nodes))
        })
        .collect();
    let report = Report { session, unseen: unseen(session), stacks };
    let json = serde_json::to_string_pretty(&report).context("cannot make JSON of the session")?;
    writeln!(out, "{}", printable(&json)).context("cannot write the JSON report")
}

impl<'s> Stacks<'s> {
    fn new(session: &'s Session, kind: Kind, tree: Vec<Node>) -> Self {
        let total = session.profile.total(kind);
        let flat = profile::flat(&session.profile, kind)
            .into_iter()
            .take(FUNCTIONS)
            .map(|entry| {
                let frame = entry.frame.map(|id| session.profile.frame(id));
                Function {
                    name: frame.map_or(NO_STACK, |frame| &frame.name),
                    module: frame.and_then(|frame| frame.module.as_deref()),
                    side: frame.map(side),
                    weight: entry.weight,
                    share: share(entry.weight, total),
                }
            })
            .collect();
        Self { unit: kind.unit(), total, flat, tree }
    }
}

/// What stands for events that were counted without a stack, as in the text report.
const NO_STACK: &str = "[no stack]";

fn nodes(tree: &CallTree<'_>, view: &View, session: &Session) -> Vec<Node> {
    let marked = marked(tree, &session.findings);
    let selection = Selection::new(tree, view, &marked);
    let mut nodes = Vec::new();
    let mut todo: Vec<(NodeId, usize)> = tree.roots().iter().rev().map(|id| (*id, 0)).collect();
    while let Some((id, depth)) = todo.pop() {
        if !selection.nodes.contains(&id) {
            continue;
        }
        let label = tree.label(id);
        let frame = tree.frame(id);
        nodes.push(Node {
            depth,
            name: match &label {
                Label::Frame(frame) => frame.name.to_string(),
                label => label.name().into_owned(),
            },
            module: label.module().map(str::to_owned),
            side: frame.map(side),
            weight: tree.weight(id),
            self_weight: tree.self_weight(id),
            share: share(tree.weight(id), tree.parent_weight(id)),
            findings: marked.get(&id).into_iter().flatten().map(|id| (*id).to_owned()).collect(),
        });
        todo.extend(tree.children(id).iter().rev().map(|id| (*id, depth + 1)));
    }
    nodes
}

fn side(frame: &Frame) -> &'static str {
    match frame.origin {
        Origin::Kernel => "kernel",
        Origin::User => "user",
    }
}

/// `part` of `whole`, 0 to 1; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// `json` with characters escaped that a terminal would act upon. JSON itself escapes only those below
/// U+0020, and has nothing but strings to hold the others.
fn printable(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() && c != '\x7f' || is_harmless(c) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::testing::{findings, session};

    fn rendered(session: &Session, view: &View) -> String {
        let mut out = Vec::new();
        render(session, view, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn report(view: &View) -> Value {
        let session = Session { findings: findings(), ..session() };
        serde_json::from_str(&rendered(&session, view)).unwrap()
    }

    #[test]
    fn it_is_the_session_and_more() {
        let session = Session { findings: findings(), ..session() };
        let mut report = report(&View::default());
        let fields = report.as_object_mut().unwrap();
        assert!(fields.remove("unseen").unwrap().is_array());
        assert!(fields.remove("stacks").unwrap().is_object());
        assert_eq!(report, serde_json::to_value(&session).unwrap());
    }

    #[test]
    fn functions_and_trees() {
        let report = report(&View::default());
        let cpu = &report["stacks"]["cpu"];
        let total = cpu["total"].as_u64().unwrap();
        assert_eq!((&cpu["unit"], total), (&"samples".into(), session().profile.total(Kind::Cpu)));
        let first = &cpu["flat"][0];
        assert_eq!(first["name"], "bch2_read_iter");
        assert_eq!((&first["module"], &first["side"]), (&"bcachefs".into(), &"kernel".into()));
        assert_eq!(first["share"].as_f64().unwrap(), first["weight"].as_f64().unwrap() / total as f64);
        assert!(cpu["flat"].as_array().unwrap().iter().any(|entry| entry["name"] == NO_STACK));

        let tree = cpu["tree"].as_array().unwrap();
        let of = |name: &str| tree.iter().position(|node| node["name"] == name).unwrap();
        let (parent, child) = (of("__bch2_read_extent"), of("bch2_bio_alloc_pages_pool"));
        assert_eq!(child, parent + 1);
        assert_eq!(tree[parent]["depth"].as_u64().unwrap() + 1, tree[child]["depth"].as_u64().unwrap());
        assert_eq!(tree[child]["share"], 956_297.0 / 1_311_194.0);
        assert_eq!(tree[child]["findings"], serde_json::json!(["read-amplification"]));
    }

    #[test]
    fn the_view_is_that_of_the_trees() {
        let view = View { root: Some("do_unlinkat".to_owned()), ..View::default() };
        let report = report(&view);
        assert_eq!(report["stacks"]["lock-wait"]["tree"][0]["name"], "do_unlinkat");
        assert_eq!(report["stacks"]["cpu"]["tree"], serde_json::json!([]));
        let view = View { root: Some("raed".to_owned()), ..View::default() };
        assert!(render(&session(), &view, &mut Vec::new()).is_err());
    }

    #[test]
    fn every_field_is_documented() {
        fn keys(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(fields) => fields.iter().for_each(|(key, value)| {
                    found.insert(key.clone());
                    keys(value, found);
                }),
                Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
                _ => {}
            }
        }
        let mut found = BTreeSet::new();
        let report = report(&View::default());
        keys(&report["stacks"], &mut found);
        // Whatever the detectors of today, this is what they leave open.
        let unseen = Unseen { probes: vec!["cpu"], ids: vec!["a"], suspected: true };
        keys(&serde_json::to_value(unseen).unwrap(), &mut found);
        found.extend(report.as_object().unwrap().keys().cloned());
        let document = include_str!("../../../docs/recording-format.md");
        let (_, section) = document.split_once("\n## The JSON report\n").unwrap();
        let (session, _) = document.split_once("\n## profile.pb.gz\n").unwrap();
        let of_session = |key: &str| session.contains(&format!("`{key}`"));
        let session_keys = serde_json::to_value(self::session()).unwrap();
        found.retain(|key| {
            let known = session_keys.get(key).is_some() && of_session(key);
            !known && !section.contains(&format!("`{key}`"))
        });
        assert!(found.is_empty(), "docs/recording-format.md does not mention {found:?}");
    }

    proptest! {
        #[test]
        fn hostile_names_are_data(name in "\\PC{0,50}|(?s:.{0,50})|[\\x1b\\x7f\u{9b}\u{202e}\u{e0041}\"\\\\]{1,9}") {
            let mut session = Session { tool: name.clone(), ..session() };
            session.findings = findings();
            session.findings[0].title = name.clone();
            let json = rendered(&session, &View::default());
            prop_assert!(json.chars().all(|c| c == '\n' || is_harmless(c)));
            let value: Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(value["tool"].as_str(), Some(&*name));
            prop_assert_eq!(value["findings"][0]["title"].as_str(), Some(&*name));
        }
    }
}
