use super::super::sources::fixture::Fixture;
use super::*;

/// A machine as systemd sets it up in hybrid mode; `X` stands for the fixture's folder.
const HYBRID: &str = r"31 23 0:28 / X/cg rw - tmpfs tmpfs rw
40 31 0:37 / X/cg/systemd rw - cgroup cgroup rw,xattr,name=systemd
38 31 0:35 / X/cg/blkio rw - cgroup cgroup rw,blkio
33 31 0:30 / X/cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / X/cg/unified rw - cgroup2 cgroup2 rw
42 31 0:39 /docker/abc X/cg/my\040mem rw - cgroup cgroup rw,memory
";

fn hybrid() -> Fixture {
    let fixture = Fixture::new(&[]);
    let root = fixture.dir.path().canonicalize().unwrap();
    fixture.file("proc/self/mountinfo", &HYBRID.replace('X', root.to_str().unwrap()));
    for group in [
        "unified/system.slice/a.service",
        "cpu,cpuacct/system.slice/a.service",
        "cpu,cpuacct/system.slice/b.service",
        "systemd/system.slice/c.service",
        "systemd/system.slice/b.service",
        "blkio/io.slice",
        "my mem/inner",
    ] {
        fixture.file(&format!("cg/{group}/cgroup.procs"), "");
    }
    fixture
}

fn v1(controller: &str) -> Hierarchy {
    Hierarchy::V1 { controller: controller.to_owned() }
}

/// Resolves and checks the id.
fn resolved(fixture: &Fixture, given: &str, folder: &str) -> (Hierarchy, String) {
    let group = resolve(&fixture.sources, given).unwrap();
    assert_eq!(group.id, fixture.path(folder).metadata().unwrap().ino(), "{given}");
    (group.hierarchy, group.path)
}

fn error(fixture: &Fixture, given: &str) -> String {
    let root = fixture.dir.path().canonicalize().unwrap();
    let error = resolve(&fixture.sources, given).unwrap_err().to_string();
    error.replace(root.to_str().unwrap(), "")
}

#[test]
fn groups_are_found_by_their_path_in_a_hierarchy() {
    let fixture = hybrid();
    let a = "/system.slice/a.service".to_owned();
    for given in ["/system.slice/a.service", "system.slice/a.service", "system.slice//a.service/"] {
        assert_eq!(
            resolved(&fixture, given, "cg/unified/system.slice/a.service"),
            (Hierarchy::V2, a.clone())
        );
    }
    assert_eq!(
        resolved(&fixture, "/system.slice/b.service", "cg/cpu,cpuacct/system.slice/b.service"),
        (v1("cpu"), "/system.slice/b.service".to_owned())
    );
    assert_eq!(resolved(&fixture, "io.slice", "cg/blkio/io.slice"), (v1("io"), "/io.slice".to_owned()));
    assert_eq!(resolved(&fixture, "/", "cg/unified"), (Hierarchy::V2, "/".to_owned()));
}

#[test]
fn groups_are_found_by_their_folder() {
    let fixture = hybrid();
    let absolute = |path: &str| fixture.path(path).to_str().unwrap().to_owned();
    let folder = "cg/cpu,cpuacct/system.slice/a.service";
    assert_eq!(
        resolved(&fixture, &absolute(folder), folder),
        (v1("cpu"), "/system.slice/a.service".to_owned())
    );
    let folder = "cg/my mem/inner";
    assert_eq!(resolved(&fixture, &absolute(folder), folder), (v1("memory"), "/docker/abc/inner".to_owned()));
}

#[test]
fn errors_say_where_it_looked() {
    let fixture = hybrid();
    let absolute = |path: &str| fixture.path(path).to_str().unwrap().to_owned();
    fixture.file("elsewhere/file", "");
    let errors = [
        error(&fixture, "missing.slice"),
        error(&fixture, "/system.slice/c.service"),
        error(&fixture, &absolute("cg/systemd/system.slice/b.service")),
        error(&fixture, &absolute("cg/systemd")),
        error(&fixture, ""),
        error(&fixture, "system.slice/a.service/cgroup.procs"),
        error(&fixture, &absolute("elsewhere")),
        error(&Fixture::new(&[]), "/"),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn nothing_leads_out_of_a_hierarchy() {
    let fixture = hybrid();
    fixture.file("elsewhere/file", "");
    fixture.link("cg/unified/link", "../../elsewhere");
    assert!(matches!(resolve(&fixture.sources, "link"), Err(CgroupError::NotAGroup { .. })));
    let group = resolve(&fixture.sources, "../../system.slice/a.service").unwrap();
    assert_eq!(group.path, "/system.slice/a.service");
}

#[test]
fn ids_lead_back_to_names() {
    let fixture = hybrid();
    let id = |path: &str| fixture.path(path).metadata().unwrap().ino();
    let mut names = CgroupNames::new(&fixture.sources, &v1("cpu"));
    assert_eq!(names.name(id("cg/cpu,cpuacct")).as_deref(), Some("/"));
    assert_eq!(
        names.name(id("cg/cpu,cpuacct/system.slice/b.service")).as_deref(),
        Some("/system.slice/b.service")
    );
    assert_eq!(names.name(id("cg/blkio/io.slice")), None);

    fixture.file("cg/cpu,cpuacct/new/cgroup.procs", "");
    names.walk();
    let new = id("cg/cpu,cpuacct/new");
    std::fs::remove_dir_all(fixture.path("cg/cpu,cpuacct/new")).unwrap();
    names.walk();
    assert_eq!(names.name(new).as_deref(), Some("/new"), "removed groups stay known");
    assert_eq!(CgroupNames::new(&fixture.sources, &v1("pids")).name(1), None);
}

#[test]
fn this_machine_has_a_root_group() {
    let sources = Sources::default();
    match resolve(&sources, "/") {
        Ok(group) => {
            assert_eq!(group.path, "/");
            assert_eq!(CgroupNames::new(&sources, &group.hierarchy).name(group.id).as_deref(), Some("/"));
        }
        // A container without cgroups.
        Err(error) => assert!(matches!(error, CgroupError::NoHierarchy), "{error}"),
    }
}
