//! Machines: declared, staged, applied, kept.

use backstitch::Declaring;
use backstitch_modules::lifecycles::sites::{self, Endpoints};
use backstitch_modules::lifecycles::{Builder, Draft, Error, Given};

use crate::lifecycles::stage::{SITES, Stage, endpoints};

fn parcel(states: &[&str]) -> Draft {
    let mut builder = Builder::new("parcel", "packed");
    let mut last = "packed";
    for state in states {
        builder = builder.state(state).edge(last, state);
        last = state;
    }
    builder.terminal("delivered").edge(last, "delivered").build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_staged_applied_and_kept_by_what_began_with_it() {
    for stage in Stage::each().await {
        let machines = &stage.lifecycles.machines;
        assert_eq!(machines.declare(parcel(&[])).await.unwrap(), 1);
        let unapplied = stage.lifecycles.start("parcel", "p1", Given::default()).await.unwrap_err();
        assert!(matches!(unapplied, Error::NothingApplied(_)), "{unapplied}");
        assert_eq!(machines.apply("parcel", None).await.unwrap(), 1);
        stage.lifecycles.start("parcel", "p1", Given::default()).await.unwrap();

        assert_eq!(machines.declare(parcel(&["sent"])).await.unwrap(), 2);
        let declared = machines.declared("parcel").await.unwrap();
        assert_eq!((declared.active, declared.staged), (Some(1), Some(2)));
        let wrong = machines.apply("parcel", Some(1)).await.unwrap_err();
        assert!(matches!(wrong, Error::AnotherStaged { expected: 1, staged: 2, .. }), "{wrong}");
        let wrong = machines.discard("parcel", Some(1)).await.unwrap_err();
        assert!(matches!(wrong, Error::AnotherStaged { expected: 1, staged: 2, .. }), "{wrong}");
        assert_eq!(machines.apply("parcel", Some(2)).await.unwrap(), 2);
        stage.lifecycles.start("parcel", "p2", Given::default()).await.unwrap();

        let old = stage.lifecycles.transition("parcel", "p1", "delivered", None).await.unwrap();
        assert_eq!((old.standing.version, old.standing.ended), (1, true));
        let new = stage.lifecycles.transition("parcel", "p2", "delivered", None).await.unwrap_err();
        assert!(matches!(new, Error::Refused { .. }), "its version has a state in between: {new}");
        let versions = machines.versions("parcel", 10).await.unwrap();
        let versions: Vec<_> = versions.iter().map(|it| (it.version, it.in_flight)).collect();
        assert_eq!(versions, [(1, 0), (2, 1)]);
        let versions = machines.versions("parcel", 0).await.unwrap();
        assert!(
            versions.iter().all(|it| it.in_flight == 0),
            "no more than so many are counted: {versions:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_declared_twice_is_one_version_and_what_is_discarded_is_not_applied() {
    for stage in Stage::each().await {
        let machines = &stage.lifecycles.machines;
        assert_eq!(machines.declare(parcel(&[])).await.unwrap(), 1);
        assert_eq!(machines.declare(parcel(&[])).await.unwrap(), 1);
        assert_eq!(machines.discard("parcel", None).await.unwrap(), 1);
        for error in [
            machines.apply("parcel", None).await.unwrap_err(),
            machines.discard("parcel", None).await.unwrap_err(),
            machines.discard("parcel", Some(1)).await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::NothingStaged(_)), "{error}");
        }
        for error in [
            machines.apply("nothing", None).await.unwrap_err(),
            machines.discard("nothing", None).await.unwrap_err(),
            machines.declared("nothing").await.unwrap_err(),
        ] {
            assert!(matches!(error, Error::UnknownMachine(_)), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_means_one_version_discards_that_one_or_nothing() {
    for stage in Stage::each().await {
        let machines = &stage.lifecycles.machines;
        machines.declare(parcel(&[])).await.unwrap();
        machines.declare(parcel(&["sent"])).await.unwrap();
        let refused = machines.discard("parcel", Some(1)).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "version 2 of `parcel` is staged, not version 1: nothing was done; look at it and decide anew"
        );
        assert_eq!(machines.declared("parcel").await.unwrap().staged, Some(2));
        assert_eq!(machines.discard("parcel", Some(2)).await.unwrap(), 2);
        assert_eq!(machines.declared("parcel").await.unwrap().staged, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_with_several_mistakes_is_refused_with_all_of_them() {
    for stage in Stage::each().await {
        let mut draft = Draft::new("parcel", "packed");
        draft.states.extend(["lost", "packed"].map(str::to_owned));
        draft.terminal.push("nowhere".to_owned());
        draft.edges.push(("packed".to_owned(), "gone".to_owned()));
        let Err(Error::Problems(problems)) = stage.lifecycles.machines.declare(draft).await else {
            panic!("it was taken")
        };
        let places: Vec<_> = problems.0.iter().map(|problem| problem.place.as_str()).collect();
        assert_eq!(places, ["states[2]", "terminal[0]", "edges[0]"]);
        assert!(matches!(stage.lifecycles.machines.declared("parcel").await, Err(Error::UnknownMachine(_))));
    }
}

#[test]
fn no_machine_speaks_for_the_engine_or_for_sites() {
    for subject in ["backstitch", "backstitch.sagas", "sites.provisioning"] {
        let taken =
            Builder::new("parcel", "packed").terminal("sent").edge("packed", "sent").subject(subject).build();
        assert_eq!(taken.unwrap_err().0[0].place, "subject", "{subject}");
    }
    let own = Builder::new("parcel", "packed")
        .terminal("sent")
        .edge("packed", "sent")
        .subject("backstitches")
        .build();
    assert!(own.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_declare_at_once_get_versions_of_their_own() {
    for stage in Stage::each().await {
        let mut declaring = tokio::task::JoinSet::new();
        for number in 0..5 {
            let machines = stage.lifecycles.machines.clone();
            let draft = parcel(&[&*format!("s{number}")]);
            declaring.spawn(async move { machines.declare(draft).await.unwrap() });
        }
        let mut versions = declaring.join_all().await;
        versions.sort_unstable();
        assert_eq!(versions, [1, 2, 3, 4, 5]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_in_to_be_applied_is_a_version_and_active_in_one_go() {
    for stage in Stage::each().await {
        let machines = &stage.lifecycles.machines;
        let first = machines.put(parcel(&[]), true).await.unwrap();
        assert_eq!(first, Declaring { version: 1, is_new: true, is_active: true });
        assert_eq!(machines.put(parcel(&["sent"]), false).await.unwrap().version, 2);
        let again = machines.put(parcel(&["sent"]), true).await.unwrap();
        assert_eq!(
            again,
            Declaring { version: 2, is_new: false, is_active: true },
            "what was staged is applied"
        );
        machines.declare(parcel(&["lost"])).await.unwrap();
        // Nobody can apply it now, so nobody is to find it either.
        stage.execute("alter table documents rename to documents_away").await.unwrap();
        machines.put(parcel(&["held"]), true).await.unwrap_err();
        stage.execute("alter table documents_away rename to documents").await.unwrap();
        assert_eq!(machines.versions("parcel", 10).await.unwrap().len(), 3);
        let declared = machines.declared("parcel").await.unwrap();
        assert_eq!((declared.active, declared.staged), (Some(2), Some(3)));
        let third = machines.put(parcel(&["held"]), true).await.unwrap();
        assert_eq!(third, Declaring { version: 4, is_new: true, is_active: true });
        assert_eq!(machines.declared("parcel").await.unwrap().staged, None, "it came in place of that");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sites_are_built_in_and_follow_their_settings() {
    for stage in Stage::each().await {
        assert_eq!(stage.lifecycles.provide_sites(&Endpoints::default()).await.unwrap(), 1);
        assert_eq!(
            stage.lifecycles.provide_sites(&Endpoints::default()).await.unwrap(),
            1,
            "nothing changed"
        );
        assert_eq!(stage.lifecycles.provide_sites(&endpoints()).await.unwrap(), 2);
        assert_eq!(stage.lifecycles.machines.active(SITES).await.unwrap().draft().actions.len(), 7);
        let mine = Draft { name: SITES.to_owned(), ..parcel(&[]) };
        let refused = stage.lifecycles.machines.declare(mine).await.unwrap_err();
        assert!(matches!(refused, Error::BuiltIn(_)), "{refused}");
        let half = Endpoints { create_hook: None, ..endpoints() };
        let refused = stage.lifecycles.provide_sites(&half).await.unwrap_err();
        assert!(refused.to_string().contains("create_hook"), "{refused}");
    }
}

#[test]
fn the_site_machine_is_the_seeds() {
    let machine = sites::machine(&endpoints()).unwrap().check().unwrap();
    let terminal: Vec<_> =
        machine.states().filter(|(state, _)| machine.is_terminal(state)).map(|it| it.0).collect();
    assert_eq!(terminal, ["live", "failed"]);
    let can_fail: Vec<_> =
        machine.states().filter(|(state, _)| machine.can_fail(state)).map(|(state, _)| state).collect();
    assert_eq!(can_fail, ["requested", "source_resolving", "vercel_creating", "hook_creating"]);
    let drawn = machine.diagram();
    for line in [
        "[*] --> requested",
        "requested --> source_resolving",
        "source_resolving --> source_resolved",
        "source_resolving --> awaiting_github : no_github_token",
        "awaiting_github --> source_resolving : start",
        "source_resolved --> vercel_creating",
        "vercel_creating --> vercel_created",
        "vercel_created --> hook_creating",
        "hook_creating --> hook_created",
        "hook_created --> live",
        "requested --> failed : fail",
        "source_resolving --> failed : fail",
        "vercel_creating --> failed : fail",
        "hook_creating --> failed : fail",
        "live --> [*]",
        "failed --> [*]",
    ] {
        assert!(drawn.lines().any(|drawn| drawn.trim() == line), "{line} is missing in\n{drawn}");
    }
}
