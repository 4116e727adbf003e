//! Two sites: one waits for its owner's GitHub account and goes live; one fails on quota, and a late webhook does not
//! revive it.

use super::super::findings::Findings;
use super::super::stage::Stage;
use crate::Failure;

pub(super) async fn play(stage: &Stage) -> Result<Findings, Failure> {
    let mut findings = Findings::default();
    waits_and_goes_live(stage, &mut findings).await?;
    fails_and_stays_so(stage, &mut findings).await?;
    Ok(findings)
}

async fn waits_and_goes_live(stage: &Stage, findings: &mut Findings) -> Result<(), Failure> {
    let site = "docs-of-ada";
    stage.say(&format!("{site} is requested"));
    stage.api.provision(site, "ada").await?;
    let waits = stage.api.site_in(site, &["awaiting_github", "live", "failed"]).await?;
    stage.say(&format!("{site} is {waits}"));
    findings.expect("a site whose owner has linked no account", waits.as_str(), "awaiting_github");
    stage.say("ada links GitHub, and it is requested again");
    stage.hosting.link("ada");
    stage.api.provision(site, "ada").await?;
    let ended = stage.api.site_in(site, &["live", "failed"]).await?;
    stage.say(&format!("States: {}", stage.api.states_of(site).await?));
    findings.expect("a site whose owner has linked one", ended.as_str(), "live");
    let there = stage.hosting.in_effect(site);
    findings.expect("what is there of it", there.as_str(), "source, project, hook");
    Ok(())
}

async fn fails_and_stays_so(stage: &Stage, findings: &mut Findings) -> Result<(), Failure> {
    let site = "docs-of-eve";
    stage.hosting.link("eve");
    stage.hosting.fill_quota("eve");
    stage.say(&format!("{site} is requested, and eve may have no more projects"));
    stage.api.provision(site, "eve").await?;
    let ended = stage.api.site_in(site, &["live", "failed"]).await?;
    let kind = stage.api.error_kind_of(site).await?;
    stage.say(&format!("{site} is {ended}: {kind}"));
    findings.expect("a site without quota", (ended.as_str(), kind.as_str()), ("failed", "quota_exceeded"));
    stage.say("A webhook comes late: the project was created");
    let refused = stage.api.late_webhook(site, "vercel_created").await?;
    stage.say(&format!("409: {refused}"));
    if !refused.contains("no non-terminal row to transition") {
        findings.mistake(format!("the late webhook should have been refused: {refused}"));
    }
    let after = stage.api.site_in(site, &["failed", "vercel_created", "live"]).await?;
    findings.expect("the site after it", after.as_str(), "failed");
    findings.expect("what is there of it", stage.hosting.in_effect(site).as_str(), "source");
    Ok(())
}
