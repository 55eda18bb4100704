//! What sandboxes may reach: which policy holds, from a create over changes to the next engine. What
//! a gate does with it is tried with real ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holm_engine::{
    AccountLimits, AuditEvent, CreateSandbox, EgressPolicy, Engine, EngineSettings, ErrorKind,
    Faults, KeyScope, Moment, NetworkView, Outcome, PageQuery, SandboxId, network_steps,
};
use holm_store::Owner;
use serde_json::{Value, json};

use crate::support::{Service, engine, settings, until};

fn policy(text: &str) -> EgressPolicy {
    text.parse().unwrap()
}

fn asking(text: &str) -> CreateSandbox {
    CreateSandbox { network: Some(policy(text)), ..CreateSandbox::default() }
}

async fn recorded(service: &Service, id: SandboxId) -> Value {
    service.store.sandbox_get(Owner::Any, id).await.unwrap().unwrap().network
}

async fn now(user: &Engine, id: &SandboxId) -> NetworkView {
    user.network_get(id).await.unwrap()
}

#[tokio::test]
async fn a_create_gets_what_it_asks_for_else_the_default() {
    let service = Service::gated();
    let (_, user) = service.tenant().await;
    for (request, want) in [
        (CreateSandbox::default(), "open"),
        (asking("none"), "none"),
        (asking("allow:api.example.com:443"), "allow:api.example.com:443"),
    ] {
        let view = user.sandbox_create(request).await.unwrap();
        assert_eq!(view.network.to_string(), want);
        assert_eq!(recorded(&service, view.id).await, policy(want).to_json());
        let state = user.sandbox_get(&view.id).await.unwrap().network_now.unwrap().state.unwrap();
        assert!(state.attached && !state.unsure, "also with none, so that it can be changed");
        assert!(service.driver.last().gate_is_open());
        let retries = service.driver.last().guest.shared.env.lock().unwrap().clone();
        assert_eq!(retries.contains_key("PIP_RETRIES"), want == "none", "{retries:?}");
        user.sandbox_destroy(&view.id).await.unwrap();
        let closed = async || !service.driver.last().gate_is_open();
        until("it went with its sandbox", closed).await;
    }
}

#[tokio::test]
async fn without_a_gate_there_is_no_network_and_none_can_be_asked_for() {
    let (engine, driver) = engine(settings());
    let view = engine.sandbox_create(CreateSandbox::default()).await.unwrap();
    assert_eq!(view.network, EgressPolicy::none());
    assert!(engine.sandbox_create(asking("none")).await.is_ok());
    for asked in ["open", "allow:api.example.com"] {
        let error = engine.sandbox_create(asking(asked)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::IsolationUnavailable);
        assert!(error.suggestion.contains("network \"none\""), "{}", error.suggestion);
        let error = engine.network_set(&view.id, policy(asked)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::IsolationUnavailable);
    }
    engine.network_set(&view.id, EgressPolicy::none()).await.unwrap();
    assert!(engine.service_info().await.network.contains("loopback"));
    assert_eq!(driver.created(), 2);
}

/// Nothing is made to look at the host for a create; what it is like shows at what is made.
#[tokio::test]
async fn that_there_is_no_gate_may_be_known_only_with_the_first_sandbox() {
    let service = Service::gated();
    service.driver.gates.store(false, Ordering::SeqCst);
    service.driver.unknown.store(true, Ordering::SeqCst);
    let (_, user) = service.tenant().await;
    let view = user.sandbox_create(CreateSandbox::default()).await.unwrap();
    assert_eq!(view.network, EgressPolicy::none());
    assert_eq!(recorded(&service, view.id).await, json!("none"));
    let told = service.driver.last().guest.shared.env.lock().unwrap().clone();
    assert!(told.contains_key("PIP_RETRIES"), "{told:?}");
    let error = user.sandbox_create(asking("open")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::IsolationUnavailable);
    assert!(error.suggestion.contains("network \"none\""), "{}", error.suggestion);
    assert_eq!(service.driver.counts.alive.load(Ordering::SeqCst), 1, "what it made is gone");
    let known = user.network_get(&view.id).await.unwrap();
    assert_eq!(known.policy, EgressPolicy::none());
}

#[tokio::test]
async fn a_change_is_recorded_audited_and_the_owners_alone() {
    let service = Service::gated();
    let (account, user) = service.tenant().await;
    let id = user.sandbox_create(asking("none")).await.unwrap().id;
    let set = user.network_set(&id, policy("allow:a.example")).await.unwrap();
    assert_eq!(set.policy, policy("allow:a.example"));
    assert_eq!(recorded(&service, id).await, set.policy.to_json());
    assert_eq!(user.sandbox_get(&id).await.unwrap().network, set.policy);
    // A foreign one looks like one that is not there.
    let (_, stranger) = service.tenant().await;
    let missing = SandboxId::random().unwrap();
    for (caller, id) in [(&stranger, &id), (&user, &missing)] {
        let error = caller.network_set(id, EgressPolicy::open()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(caller.network_get(id).await.unwrap_err().kind, ErrorKind::NotFound);
    }
    let reader = service.user_with(account, &[KeyScope::Read]).await;
    assert_eq!(now(&reader, &id).await.policy, set.policy);
    let error = reader.network_set(&id, EgressPolicy::open()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden);
    assert_eq!(recorded(&service, id).await, set.policy.to_json());
    let audited = async || service.audited().await;
    let done = "sandbox.network done".to_owned();
    until("audited", async || audited().await.contains(&done)).await;
    let events = service.engine.audit_list(None, PageQuery::first(100)).await.unwrap().items;
    let is_it =
        |event: &&AuditEvent| event.action == "sandbox.network" && event.outcome == Outcome::Done;
    let event = events.iter().find(is_it).unwrap();
    assert_eq!(event.detail["network"], "allow:a.example");
    // Of one that is over it is still told.
    user.sandbox_destroy(&id).await.unwrap();
    let over = now(&user, &id).await;
    assert_eq!((over.policy, over.state), (set.policy, None));
    let error = user.network_set(&id, EgressPolicy::open()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::SandboxGone);
}

#[tokio::test]
async fn too_many_rules_are_refused_and_change_nothing() {
    let service = Service::gated();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(asking("none")).await.unwrap().id;
    let mut many = policy("allow:a.example");
    many.allow = vec![many.allow[0].clone(); 257];
    let error = user.network_set(&id, many.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    let request = CreateSandbox { network: Some(many), ..CreateSandbox::default() };
    let error = user.sandbox_create(request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert_eq!(now(&user, &id).await.policy, EgressPolicy::none());
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_holds_for_what_runs_whoever_sets_it() {
    let service = Service::gated();
    let ceiling = |text: &str| AccountLimits {
        network: Some(policy(text).to_json()),
        ..AccountLimits::default()
    };
    let account = service.account_with(ceiling("allow:*.example.org")).await;
    let user = service.user(account).await;
    let id = user.sandbox_create(asking("open")).await.unwrap().id;
    let seen = async || now(&user, &id).await.state.unwrap().ceiling;
    assert_eq!(seen().await, Some(policy("allow:*.example.org")));
    assert_eq!(now(&user, &id).await.policy, policy("open"), "its own stays");
    // By this engine: at once.
    service.engine.account_set_limits(account, ceiling("none")).await.unwrap();
    assert_eq!(seen().await, Some(EgressPolicy::none()));
    // By somebody else who has the database: soon.
    service.store.account_set_limits(account, AccountLimits::default()).await.unwrap();
    until("the ceiling is gone", async || seen().await.is_none()).await;
    let wrong = AccountLimits { network: Some(json!("closed")), ..AccountLimits::default() };
    let error = service.engine.account_set_limits(account, wrong).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn the_next_engine_attaches_the_recorded_policy_before_anybody_can_use_it() {
    let mut service = Service::gated();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(asking("open")).await.unwrap().id;
    user.network_set(&id, policy("allow:a.example")).await.unwrap();
    let machine = service.driver.last();
    service.kill();
    drop(user.clone());
    service.engine.start().await.unwrap();
    let user = service.engine.for_caller(user.caller().clone());
    let view = now(&user, &id).await;
    assert_eq!(view.policy, policy("allow:a.example"));
    assert!(view.state.unwrap().attached);
    assert_eq!(machine.gate_ports.lock().unwrap().len(), 2, "sockets of its own");
    assert!(machine.gate_is_open());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_cannot_be_attached_is_tried_again_and_nothing_is_open_meanwhile() {
    let mut service = Service::gated();
    let (_, user) = service.tenant().await;
    let id = user.sandbox_create(asking("open")).await.unwrap().id;
    service.driver.last().gate_failures.store(2, Ordering::SeqCst);
    service.kill();
    service.engine.start().await.unwrap();
    let user = service.engine.for_caller(user.caller().clone());
    let attached = async || now(&user, &id).await.state.unwrap().attached;
    assert!(!attached().await);
    until("attached", attached).await;
    assert_eq!(service.driver.last().gate_ports.lock().unwrap().len(), 2);
}

/// Generated from the list of steps: a change that fails leaves nothing open, and ends, here and in
/// the next engine, with one of the two policies.
#[tokio::test(start_paused = true)]
async fn a_change_that_fails_leaves_the_stricter_of_both() {
    for name in network_steps() {
        for moment in [Moment::Before, Moment::After] {
            for restart in [false, true] {
                let armed = Arc::new(AtomicBool::new(true));
                let trigger = Arc::clone(&armed);
                let faults = Faults::when(move |step, when| {
                    trigger.load(Ordering::SeqCst) && step == name && when == moment
                });
                let what = format!("{name} {moment:?}, restart {restart}");
                let mut service = Service::gated();
                let settings = EngineSettings { faults, ..service.settings.clone() };
                service.settings = settings.clone();
                service.engine = Engine::with_store(
                    Arc::clone(&service.driver) as _,
                    settings,
                    Arc::clone(&service.store),
                );
                let (_, mut user) = service.tenant().await;
                let id = user.sandbox_create(asking("none")).await.unwrap().id;
                user.network_set(&id, policy("open")).await.unwrap_err();
                let state = now(&user, &id).await.state.unwrap();
                let is_recorded = recorded(&service, id).await == json!("open");
                let applied = name == "network_apply" && moment == Moment::After;
                assert_eq!(state.unsure, is_recorded && !applied, "{what}");
                armed.store(false, Ordering::SeqCst);
                if restart {
                    service.kill();
                    service.engine.start().await.unwrap();
                    user = service.engine.for_caller(user.caller().clone());
                }
                let sure = async || !now(&user, &id).await.state.unwrap().unsure;
                until("it is known", sure).await;
                let want = if is_recorded { "open" } else { "none" };
                assert_eq!(now(&user, &id).await.policy, policy(want), "{what}");
                // And it can be changed again.
                user.network_set(&id, policy("allow:a.example")).await.unwrap();
                assert_eq!(recorded(&service, id).await, policy("allow:a.example").to_json());
            }
        }
    }
}
