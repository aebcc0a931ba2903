use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::profile::{GroupBy, Labels, Origin, flat};
use crate::testing::{BCACHEFS_TOTAL, bcachefs_profile, kernel, push, session};

fn view(change: impl FnOnce(&mut View)) -> View {
    let mut view = View::default();
    change(&mut view);
    view
}

fn root(name: &str) -> View {
    view(|view| view.root = Some(name.to_owned()))
}

fn callers(name: &str) -> View {
    view(|view| view.callers = Some(name.to_owned()))
}

/// The tree as `depth name weight`, a node a word.
fn outline(tree: &CallTree<'_>) -> Vec<String> {
    fn walk(tree: &CallTree<'_>, ids: &[NodeId], depth: usize, lines: &mut Vec<String>) {
        for id in ids {
            lines.push(format!("{depth} {} {}", tree.label(*id).name(), tree.weight(*id)));
            walk(tree, tree.children(*id), depth + 1, lines);
        }
    }
    let mut lines = Vec::new();
    walk(tree, tree.roots(), 0, &mut lines);
    lines
}

/// Stacks as text: user frames in capitals, kernel frames in small letters.
fn profile_of(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = Profile::new();
    for (index, (names, weight)) in stacks.iter().enumerate() {
        let comm = if index % 2 == 0 { "even" } else { "odd" };
        let labels = Labels { comm: Some(comm.into()), cpu: Some(index as u32), ..Labels::default() };
        let labels = profile.intern_labels(labels);
        let frames: Vec<Frame> = names
            .split_whitespace()
            .map(|name| if name == name.to_lowercase() { kernel(name) } else { Frame::user(name, "bin") })
            .collect();
        push(&mut profile, Kind::Cpu, labels, &frames, *weight);
    }
    profile
}

#[test]
fn kernel_side_by_default() {
    let profile = profile_of(&[("MAIN a b", 5), ("MAIN a", 2), ("MAIN", 3), ("", 1), ("OTHER a b c", 1)]);
    let tree = CallTree::build(&profile, Kind::Cpu, &View::default()).unwrap();
    assert_eq!(outline(&tree), ["0 a 8", "1 b 6", "2 c 1", "0 [user space] 3", "0 [no stack] 1"]);
    assert_eq!((tree.total(), tree.shown_total()), (12, 12));
    assert_eq!(tree.self_weight(tree.roots()[0]), 2);
    assert_eq!(tree.parent_weight(tree.roots()[0]), 12);
}

#[test]
fn user_frames_come_first() {
    let profile = profile_of(&[("MAIN a b", 5), ("MAIN", 3), ("", 1)]);
    let tree = CallTree::build(&profile, Kind::Cpu, &view(|view| view.user = true)).unwrap();
    assert_eq!(outline(&tree), ["0 MAIN 8", "1 a 5", "2 b 5", "0 [no stack] 1"]);
}

#[test]
fn root_merges_occurrences_and_counts_recursion_once() {
    let profile = profile_of(&[("a f b", 5), ("c f b f d", 2), ("c", 3)]);
    let tree = CallTree::build(&profile, Kind::Cpu, &root("f")).unwrap();
    assert_eq!(outline(&tree), ["0 f 7", "1 b 7", "2 f 2", "3 d 2"]);
    assert_eq!((tree.total(), tree.shown_total()), (10, 7));
}

#[test]
fn callers_go_up_from_the_innermost_occurrence() {
    let profile = profile_of(&[("MAIN a f b", 5), ("c f b f d", 2), ("c", 3)]);
    let tree = CallTree::build(&profile, Kind::Cpu, &callers("f")).unwrap();
    assert_eq!(outline(&tree), ["0 f 7", "1 a 5", "1 b 2", "2 f 2", "3 c 2"]);
}

#[test]
fn views_of_user_functions_show_user_frames() {
    let profile = profile_of(&[("MAIN RUN a", 5), ("RUN", 2)]);
    let below = CallTree::build(&profile, Kind::Cpu, &root("RUN")).unwrap();
    assert_eq!(outline(&below), ["0 RUN 7", "1 a 5"]);
    let above = CallTree::build(&profile, Kind::Cpu, &callers("RUN [bin]")).unwrap();
    assert_eq!(outline(&above), ["0 RUN 7", "1 MAIN 5"]);
}

#[test]
fn groups_are_nodes() {
    let profile = profile_of(&[("a", 5), ("MAIN", 6), ("a b", 2)]);
    let by = |by| view(|view| view.by = Some(by));
    let tree = CallTree::build(&profile, Kind::Cpu, &by(GroupBy::Comm)).unwrap();
    assert_eq!(outline(&tree), ["0 comm=even 7", "1 a 7", "2 b 2", "0 comm=odd 6", "1 [user space] 6"]);
    let tree = CallTree::build(&profile, Kind::Cpu, &by(GroupBy::Pid)).unwrap();
    assert_eq!(outline(&tree)[0], "0 pid=? 13");
    let mut grouped = root("b");
    grouped.by = Some(GroupBy::Cpu);
    let tree = CallTree::build(&profile, Kind::Cpu, &grouped).unwrap();
    assert_eq!(outline(&tree), ["0 cpu=2 2", "1 b 2"]);
}

#[test]
fn functions_merge_whatever_the_address() {
    let mut profile = Profile::new();
    let labels = profile.intern_labels(Labels::default());
    let frame = profile.intern_frame(Frame::kernel("f"));
    for address in [16, 32] {
        let frames = [profile.intern_location(frame, address)].into();
        profile.push(crate::profile::Stack { kind: Kind::Cpu, frames, labels, count: 1, weight: 2 });
    }
    let tree = CallTree::build(&profile, Kind::Cpu, &View::default()).unwrap();
    assert_eq!(outline(&tree), ["0 f 4"]);
}

#[test]
fn modules_tell_functions_apart() {
    let mut profile = Profile::new();
    let labels = profile.intern_labels(Labels::default());
    for (name, weight) in [("init [xfs]", 2), ("init [ext4]", 3), ("init", 4)] {
        push(&mut profile, Kind::Cpu, labels, &[kernel(name)], weight);
    }
    let roots = |name: &str| CallTree::build(&profile, Kind::Cpu, &root(name)).unwrap().roots().len();
    assert_eq!((roots("init"), roots("init [xfs]")), (3, 1));
}

#[test]
fn unknown_functions_get_suggestions() {
    let profile = bcachefs_profile();
    let error = CallTree::build(&profile, Kind::Cpu, &root("bch2_raed_iter")).err().unwrap();
    let ViewError::NoSuchFunction { name, suggestions } = error else { panic!("{error}") };
    assert_eq!(name, "bch2_raed_iter");
    assert_eq!(suggestions[0], "bch2_read_iter");

    let mut both = root("aio_read");
    both.callers = Some("aio_read".to_owned());
    assert_eq!(CallTree::build(&profile, Kind::Cpu, &both).err(), Some(ViewError::RootAndCallers));
}

#[test]
fn weights_follow_the_kind() {
    let session = session();
    for kind in session.profile.kinds() {
        let tree = CallTree::build(&session.profile, kind, &View::default()).unwrap();
        assert_eq!(tree.shown_total(), session.profile.total(kind));
    }
    let profile = bcachefs_profile();
    assert_eq!(profile.total(Kind::Cpu), BCACHEFS_TOTAL);
}

/// Random stacks over few functions, so that they meet and recurse.
fn any_profile() -> impl Strategy<Value = Profile> {
    let name = prop::sample::select(vec!["a", "b", "c", "MAIN", "RUN"]);
    let stack = (prop::collection::vec(name, 0..8), 0u64..1000);
    prop::collection::vec(stack, 1..40).prop_map(|stacks| {
        let stacks: Vec<(String, u64)> =
            stacks.into_iter().map(|(names, weight)| (names.join(" "), weight)).collect();
        profile_of(&stacks.iter().map(|(names, weight)| (names.as_str(), *weight)).collect::<Vec<_>>())
    })
}

fn any_group() -> impl Strategy<Value = Option<GroupBy>> {
    prop::option::of(prop::sample::select(GroupBy::ALL.to_vec()))
}

proptest! {
    #[test]
    fn trees_add_up(
        profile in any_profile(),
        user in any::<bool>(),
        by in any_group(),
        focus in prop::option::of((any::<bool>(), prop::sample::select(vec!["a", "b", "MAIN"]))),
    ) {
        let mut view = View { user, by, ..View::default() };
        if let Some((up, name)) = focus {
            *if up { &mut view.callers } else { &mut view.root } = Some(name.to_owned());
        }
        // What the roots must add up to, counted without a tree.
        let through = |stack: &crate::profile::Stack| match focus {
            Some((_, name)) => stack.frames.iter().any(|location| &*profile.frame_of(*location).name == name),
            None => true,
        };
        let passing: Vec<_> = profile.of_kind(Kind::Cpu).filter(|stack| through(stack)).collect();
        let expected: u64 = passing.iter().map(|stack| stack.weight).sum();

        match CallTree::build(&profile, Kind::Cpu, &view) {
            Err(_) => prop_assert!(passing.is_empty()),
            Ok(tree) => {
                prop_assert_eq!(tree.shown_total(), expected);
                prop_assert_eq!(tree.total(), profile.total(Kind::Cpu));
                for id in tree.ids() {
                    let children = tree.children(id);
                    let below: u64 = children.iter().map(|child| tree.weight(*child)).sum();
                    prop_assert_eq!(tree.weight(id), below + tree.self_weight(id));
                    prop_assert!(children.iter().all(|child| tree.parent(*child) == Some(id)));
                    prop_assert!(children.is_sorted_by(|a, b| tree.weight(*a) >= tree.weight(*b)));
                    let mut names: Vec<_> =
                        children.iter().map(|child| tree.label(*child).name().into_owned()).collect();
                    names.sort();
                    names.dedup();
                    prop_assert_eq!(names.len(), children.len());
                }
            }
        }
    }

    #[test]
    fn flat_profiles_add_up(profile in any_profile()) {
        let entries = flat(&profile, Kind::Cpu);
        prop_assert_eq!(entries.iter().map(|entry| entry.weight).sum::<u64>(), profile.total(Kind::Cpu));
        prop_assert!(entries.is_sorted_by(|a, b| a.weight >= b.weight));
    }

    #[test]
    fn kernel_trees_have_no_user_frames(profile in any_profile()) {
        let tree = CallTree::build(&profile, Kind::Cpu, &View::default()).unwrap();
        let kernel = |id| tree.frame(id).is_none_or(|frame| frame.origin == Origin::Kernel);
        prop_assert!(tree.ids().all(kernel));
    }
}

/// Not a test of the code but a measurement: `cargo test --release -- --ignored --nocapture million`.
#[test]
#[ignore = "a measurement"]
fn million_stacks() {
    let mut profile = Profile::new();
    let labels = profile.intern_labels(Labels::default());
    let locations: Vec<_> = (0..5000)
        .map(|index| {
            let frame = profile.intern_frame(Frame::kernel(&format!("function_{index}")));
            profile.intern_location(frame, index)
        })
        .collect();
    let mut state = 1u64;
    for _ in 0..1_000_000 {
        let frames: Box<[_]> = (0..30u64)
            .map(|depth| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Callees differ more the deeper they are.
                let choice = (state >> 33) % (1 + depth / 8);
                locations[(depth * 100 + choice) as usize]
            })
            .collect();
        profile.push(crate::profile::Stack { kind: Kind::Cpu, frames, labels, count: 1, weight: 1 });
    }
    let start = Instant::now();
    let tree = CallTree::build(&profile, Kind::Cpu, &View::default()).unwrap();
    let took: Duration = start.elapsed();
    println!("{} nodes in {took:?}", tree.len());
    assert_eq!(tree.shown_total(), 1_000_000);
}
