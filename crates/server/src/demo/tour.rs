//! All scenes, one after the other, and what came of them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::process::{ServerProcess, log_path};
use super::scenes::Scene;
use super::screen::Screen;
use super::services::{Behaviour, Services};
use super::stage::Stage;
use super::{settings, traffic};
use crate::commands::{Failure, Signals};

/// How long a scene may take; each takes a few seconds at most.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is to be shown.
pub(crate) struct Plan {
    pub(crate) listen: SocketAddr,
    /// Ends after the tour.
    pub(crate) once: bool,
    /// Shows the server's log too.
    pub(crate) verbose: bool,
}

/// How a scene went.
struct Played {
    scene: Scene,
    took: Duration,
    good: bool,
}

/// Plays everything in a folder that is gone afterwards, unless something went wrong in it.
pub(crate) async fn play(plan: Plan) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("backstitch-demo-").tempdir()?;
    let mut signals = Signals::listen()?;
    let (verbose, once) = (plan.verbose, plan.once);
    // Whatever comes first, the stage is dropped with it, and the server's process ends.
    let played = tokio::select! {
        played = on_stage(plan, folder.path()) => played,
        () = signals.next() => {
            return if once { Err("interrupted before the end of the tour".into()) } else { Ok(()) };
        }
    };
    played.map_err(|why| {
        if verbose {
            return why;
        }
        let log = log_path(&folder.keep());
        format!("{why}; the server's log is in {}", log.display()).into()
    })
}

async fn on_stage(plan: Plan, folder: &Path) -> Result<(), Failure> {
    let screen = Screen::of_this_process();
    let services = Services::start(Behaviour::Succeed).await?;
    let config = settings::config(plan.listen, folder, &services);
    let server = ServerProcess::start(config, folder, plan.verbose).await?;
    let address = server.address();
    screen
        .line(&format!("backstitch serves http://{address} as process {}", server.id().unwrap_or_default()));
    screen.line(&format!("kept in {}, gone at the end", folder.display()));
    screen.line(&format!("payment, inventory and logistics are simulated at http://{}", services.address()));
    let mut stage = Stage::new(server, services, screen);
    let failed = tour(&mut stage).await;
    if !plan.once {
        return traffic::run(&stage).await;
    }
    // Before the folder goes, so that nobody writes to it any more.
    stage.server.kill().await?;
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} scenes did not end as they should", Scene::ALL.len()).into()),
    }
}

/// Plays all scenes and gives how many went wrong.
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
    screen.line("\nSummary");
    for (position, Played { scene, took, good }) in all.iter().enumerate() {
        let took = took.as_secs_f64();
        screen.line(&format!(
            "   {} {}  {:<68} {took:>6.2} s",
            screen.mark(*good),
            position + 1,
            scene.title()
        ));
    }
    let good = all.iter().filter(|played| played.good).count();
    screen.line(&format!("{good} of {} scenes ended as they should", all.len()));
}
