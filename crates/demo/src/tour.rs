//! Runs all scenes and prints a summary.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::process::log_path;
use super::scenes::Scene;
use super::screen::{Screen, line};
use super::stage::Stage;
use super::traffic;
use crate::Failure;

/// Time limit of a scene; each takes a few seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Options of the demo.
pub struct Plan {
    /// The server's address; port 0 picks a free port.
    pub listen: SocketAddr,
    /// End after the tour.
    pub once: bool,
    /// Show the server's log too.
    pub verbose: bool,
}

/// The result of a scene.
struct Played {
    scene: Scene,
    took: Duration,
    good: bool,
}

/// The user interrupted the tour.
#[derive(Debug, thiserror::Error)]
#[error("interrupted before the end of the tour")]
struct Interrupted;

/// Runs the demo in a temporary directory, which is kept only after a failure.
/// `interrupted` resolves when the user asks to stop; it is called again after each interruption.
///
/// # Errors
/// When a scene of a single tour did not end as expected, or the server cannot be started.
pub async fn play(plan: Plan, mut interrupted: impl AsyncFnMut()) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("backstitch-demo-").tempdir()?;
    let played = perform(&plan, folder.path(), &mut interrupted).await;
    played.map_err(|why| {
        if plan.verbose || why.is::<Interrupted>() {
            return why;
        }
        let log = log_path(&folder.keep());
        format!("{why}; the server's log is in {}", log.display()).into()
    })
}

async fn perform(plan: &Plan, folder: &Path, interrupted: &mut impl AsyncFnMut()) -> Result<(), Failure> {
    let mut stage = Stage::set(plan.listen, folder, plan.verbose).await?;
    introduce(&stage, folder);
    let played = tokio::select! {
        failed = tour(&mut stage) => judged(failed),
        () = interrupted() => Err(Interrupted.into()),
    };
    let ended = if plan.once || played.as_ref().is_err_and(|why| why.is::<Interrupted>()) {
        played
    } else {
        if let Err(why) = played {
            line(&format!("{why}; the server's log is in {}", log_path(folder).display()));
        }
        tokio::select! {
            ended = traffic::run(&stage) => ended,
            () = interrupted() => Ok(()),
        }
    };
    // Awaited, so that the server no longer writes to the directory when it is removed.
    stage.server.end().await;
    ended
}

fn introduce(stage: &Stage, folder: &Path) {
    let Stage { server, services, .. } = stage;
    let process = server.id().unwrap_or_default();
    line(&format!("backstitch serves http://{} as process {process}", server.address()));
    line(&format!("console: http://{}/", server.address()));
    line(&format!("kept in {}, gone at the end", folder.display()));
    line(&format!("payment, inventory and logistics are simulated at http://{}", services.address()));
    line("GitHub and Vercel are simulated too, for sites");
    line(
        "log of an order: U called, S succeeded, F failed, R undone, RF could not be undone, D rollback done",
    );
}

fn judged(failed: usize) -> Result<(), Failure> {
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} scenes did not end as they should", Scene::ALL.len()).into()),
    }
}

/// Runs all scenes and returns the number of failures.
async fn tour(stage: &mut Stage) -> usize {
    let mut all = Vec::new();
    for (position, scene) in Scene::ALL.into_iter().enumerate() {
        stage.begin(position + 1, scene.title());
        let findings = tokio::time::timeout(PATIENCE, scene.play(stage)).await;
        let mistakes = match findings {
            Ok(Ok(findings)) => findings.into_mistakes(),
            Ok(Err(why)) => vec![why.to_string()],
            Err(_) => vec![format!("not over after {PATIENCE:?}")],
        };
        if mistakes.is_empty() {
            stage.screen.good("as it should be, by the API and by the services' own books");
        }
        for mistake in &mistakes {
            stage.screen.bad(mistake);
        }
        all.push(Played { scene, took: stage.elapsed(), good: mistakes.is_empty() });
    }
    summarize(stage.screen, &all);
    all.iter().filter(|played| !played.good).count()
}

fn summarize(screen: Screen, all: &[Played]) {
    line("\nSummary");
    for (position, Played { scene, took, good }) in all.iter().enumerate() {
        let took = took.as_secs_f64();
        line(&format!("   {} {}  {:<68} {took:>6.2} s", screen.mark(*good), position + 1, scene.title()));
    }
    let good = all.iter().filter(|played| played.good).count();
    line(&format!("{good} of {} scenes ended as they should", all.len()));
}
