//! Layouts and accesses on hand-made BTF, whose offsets are known.

use proptest::prelude::*;

use super::btf::BtfTypes;
use super::encoder::{Encoder, mount};
use super::*;
use crate::kernel::btf::Btf;

fn paths(access: &Access) -> Vec<(&str, u64)> {
    access.places().iter().map(|place| (place.path.as_str(), place.offset())).collect()
}

fn mount_access(offset: u64, size: u64) -> Access {
    let types = mount().types();
    let pointer = types.prototype("agino_range").unwrap().parameters[0].ty;
    types.members_at(types.pointee(pointer).unwrap(), offset, size)
}

#[test]
fn from_an_argument_and_a_displacement_to_the_member() {
    let Access::Member(place) = mount_access(72, 4) else { panic!() };
    assert_eq!(
        (place.path.as_str(), place.type_name.as_str(), place.size()),
        ("m_agino_log", "unsigned int", 4)
    );
    // Within a structure: the innermost, and the member that it is a part of.
    let Access::Member(place) = mount_access(65, 1) else { panic!() };
    assert_eq!((place.path.as_str(), place.member.as_str()), ("m_sb.sb_inopblog", "m_sb"));
    let Access::Member(place) = mount_access(80, 8) else { panic!() };
    assert_eq!((place.path.as_str(), place.member.as_str()), ("m_active_trans.counter", "m_active_trans"));
    // Half of a pointer is a part of the pointer.
    assert_eq!(paths(&mount_access(4, 4)), [("m_ops", 0)]);
}

#[test]
fn elements_of_arrays_have_their_index() {
    assert_eq!(paths(&mount_access(34, 1)), [("m_name[2]", 34)]);
    assert_eq!(paths(&mount_access(160, 8)), [("m_pools[1].nr_free", 160)]);
    assert_eq!(paths(&mount_access(152, 0)), [("m_pools[1].lock.rlock", 152)]);
    // The flexible array lies behind the end.
    assert_eq!(paths(&mount_access(320 + 3 * 8, 8)), [("m_table[3]", 344)]);
}

#[test]
fn several_members_are_all_named() {
    let Access::Union(places) = mount_access(52, 4) else { panic!() };
    let names: Vec<_> = places.iter().map(|place| place.path.as_str()).collect();
    assert_eq!(names, ["m_flags", "m_high"]);
    let Access::Spans(places) = mount_access(72, 8) else { panic!() };
    assert_eq!(places.len(), 2);
    // A byte that holds two bitfields.
    let access = mount_access(68, 1);
    assert!(matches!(&access, Access::Spans(places) if places.iter().all(|place| place.bitfield)));
    assert_eq!(paths(&access), [("m_sb.sb_a", 68), ("m_sb.sb_b", 68)]);
}

#[test]
fn what_is_no_member_is_said_so() {
    assert_eq!(mount_access(12, 4), Access::Padding);
    assert_eq!(mount_access(216, 8), Access::Padding);
    let types = mount().types();
    let sb = types.named("sb")[0];
    assert_eq!(types.members_at(sb, 8, 1), Access::Outside);
    assert_eq!(types.members_at(sb, u64::MAX, 8), Access::Outside);
    assert_eq!(types.members_at(TypeId::VOID, 0, 8), Access::Outside);
    assert_eq!(types.members_at(TypeId(77 << 32 | 5), 0, 8), Access::Outside);
}

#[test]
fn a_member_that_is_a_pointer_leads_on() {
    let types = mount().types();
    let place = |ty, offset| match types.members_at(ty, offset, 8) {
        Access::Member(place) => place,
        other => panic!("{other:?}"),
    };
    let first = place(types.named("mount")[0], 16);
    assert_eq!((first.path.as_str(), first.type_name.as_str()), ("m_list.next", "struct list_head *"));
    assert_eq!(place(types.pointee(first.ty).unwrap(), 8).path, "prev");
    // A structure of which nothing but the name is known.
    let unknown = place(types.named("mount")[0], 208);
    assert_eq!(unknown.type_name, "struct unknown *");
    assert_eq!(types.members_at(types.pointee(unknown.ty).unwrap(), 0, 8), Access::Outside);
    // An integer points nowhere.
    assert_eq!(types.pointee(place(types.named("mount")[0], 192).ty), None);
}

#[test]
fn layouts() {
    let types = mount().types();
    let layout = types.structure("mount").unwrap();
    assert_eq!((layout.name.as_str(), layout.size), ("mount", 320));
    let members: Vec<String> = layout
        .named_members()
        .iter()
        .map(|member| {
            format!("{:>3} {:>2} {} {}", member.offset(), member.size(), member.type_name, member.path)
        })
        .collect();
    insta::assert_snapshot!(members.join("\n"));
    assert_eq!(layout.member("m_high").unwrap().offset(), 52);
    // By its typedef, it is the same structure.
    assert_eq!(types.structure("mount_t").unwrap().ty, layout.ty);
    assert_eq!(types.structure("nothing"), None);
    // A hole from 88 to 128 that 64 bytes explain, and nothing less.
    assert_eq!(layout.align, Alignment::Attribute(64));
    assert_eq!(types.structure("pool").unwrap().align, Alignment::Natural(8));
}

#[test]
fn functions_and_variables() {
    let types = mount().types();
    let prototype = types.prototype("agino_range").unwrap();
    assert_eq!(prototype.parameters[1].name.as_deref(), Some("agno"));
    assert_eq!(types.type_name(prototype.parameters[0].ty), "mount_t *");
    assert!(!prototype.variant);
    assert!(types.prototype("agino_range.isra.0").unwrap().variant);
    assert_eq!(types.prototype("nothing"), None);
    let variable = types.variable("mount_stats").unwrap();
    assert_eq!((variable.per_cpu, variable.offset, variable.size), (true, Some(4096), Some(24)));
    assert_eq!(types.type_name(variable.ty), "struct pool");
}

#[test]
fn structures_that_contain_themselves_end() {
    let mut btf = Encoder::new();
    // Each has itself for a member, nameless and with a name, as an array, and behind a typedef.
    btf.structure("itself", 8, &[("", 1, 0, 0), ("again", 1, 0, 0), ("array", 2, 0, 0), ("alias", 3, 0, 0)]);
    btf.array(1, 4_000_000_000);
    btf.typedef("alias", 3);
    btf.array(4, 3);
    let types = btf.types();
    let id = types.named("itself")[0];
    types.layout(id).unwrap();
    types.members_at(id, 0, 8);
    types.members_at(id, 7, u64::MAX / 16);
    for id in 0..6 {
        types.type_name(TypeId(id));
        types.size(TypeId(id));
    }
}

#[test]
fn variants() {
    assert_eq!(variant_of("xfs_dabuf_map.constprop.0"), Some("xfs_dabuf_map"));
    assert_eq!(variant_of("f.isra.0.cold"), Some("f"));
    assert_eq!(variant_of("vfs_read"), None);
    assert_eq!(variant_of(".text"), None);
}

/// Asks everything about everything.
fn ask(types: &BtfTypes) {
    for name in types.names() {
        for id in types.named(&name) {
            if let Some(layout) = types.layout(id) {
                types.members_at(id, layout.size / 2, 8);
            }
        }
    }
    types.prototype("agino_range");
    types.variable("mount_stats");
    for id in 0..64 {
        types.type_name(TypeId(id));
        types.members_at(TypeId(id), 3, 16);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn damaged_btf_is_an_error_or_nonsense_but_ends(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = mount().bytes();
        for (place, byte) in damage {
            let index = place.index(bytes.len());
            bytes[index] = byte;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        if let Ok(btf) = Btf::parse(bytes, None) {
            ask(&BtfTypes::from_btf(btf));
        }
    }
}
