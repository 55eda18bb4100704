//! Which events there are of a create and of a balance, and when.

use std::sync::Arc;
use std::time::Duration;

use holm_engine::{CreateSandbox, EngineSettings};

use super::{Receivers, hears, rules, service};
use crate::support::service::PRICE;
use crate::support::{Service, settings, until};

/// The beginning and the moment when it can be used are two things, with as much time between them
/// as there was.
#[tokio::test(start_paused = true)]
async fn a_create_is_told_when_it_begins_and_again_when_it_is_ready() {
    let service = service(&["one"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[]);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    *service.driver.delay.lock().unwrap() = Duration::from_secs(6);
    let making = user.clone();
    let making = tokio::spawn(async move { making.sandbox_create(CreateSandbox::default()).await });
    hears(&receivers, "one", 1).await;
    assert!(!making.is_finished());
    let begun = receivers.heard("one")[0].body.clone();
    assert_eq!(
        (&begun["type"], &begun["data"]["status"]),
        (&"sandbox.created".into(), &"provisioning".into())
    );
    assert!(begun["data"]["ready_at"].is_null(), "{begun}");
    let id = making.await.unwrap().unwrap().id;
    hears(&receivers, "one", 2).await;
    let ready = receivers.heard("one")[1].body.clone();
    assert_eq!(
        (&ready["type"], &ready["data"]["status"]),
        (&"sandbox.ready".into(), &"running".into())
    );
    assert_eq!(ready["data"]["sandbox_id"], id.to_string());
    assert!(ready["data"]["ready_at"].is_string(), "{ready}");
    webhooks.stop().await;
}

#[tokio::test]
async fn who_heard_of_a_create_hears_that_it_failed() {
    let service = service(&["one"]);
    let (_, user) = service.tenant().await;
    let receivers = Receivers::new(&[]);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    *service.driver.failing.lock().unwrap() = Some(holm_runtime::DriverErrorKind::HostExhausted);
    user.sandbox_create(CreateSandbox::default()).await.unwrap_err();
    hears(&receivers, "one", 2).await;
    assert_eq!(receivers.kinds("one"), ["sandbox.created", "sandbox.destroyed"]);
    let heard = receivers.heard("one");
    let (begun, over) = (&heard[0].body["data"], &heard[1].body["data"]);
    assert_eq!(begun["sandbox_id"], over["sandbox_id"]);
    assert_eq!(
        (&over["status"], &over["ended_reason"]),
        (&"failed".into(), &"create_failed".into())
    );
    // One that is refused never began.
    let nobody = CreateSandbox { template: Some("none".to_owned()), ..CreateSandbox::default() };
    user.sandbox_create(nobody).await.unwrap_err();
    *service.driver.failing.lock().unwrap() = None;
    user.sandbox_create(CreateSandbox::default()).await.unwrap();
    hears(&receivers, "one", 4).await;
    assert_eq!(receivers.kinds("one")[2..], ["sandbox.created", "sandbox.ready"]);
    webhooks.stop().await;
}

/// 100 seconds are paid. Below half of them is low.
#[tokio::test(start_paused = true)]
async fn a_low_balance_is_told_once_for_each_time_that_it_becomes_low() {
    let low = 50 * PRICE;
    let prices = holm_engine::Prices { small: PRICE, medium: PRICE, large: PRICE };
    let webhooks = vec!["one".to_owned()];
    let service =
        Service::with(EngineSettings { webhooks, prices, low_balance: low, ..settings() });
    let (account, user) = service.tenant().await;
    let receivers = Receivers::new(&[]);
    let webhooks = service.engine.webhooks_start(Arc::clone(&receivers) as _, rules());
    let told = || {
        let all = receivers.heard("one").into_iter().map(|message| message.body);
        let balances =
            all.filter(|body| body["type"] == "balance_low").map(|body| body["data"].clone());
        balances.collect::<Vec<serde_json::Value>>()
    };
    let wait =
        |count: usize| async move { tokio::time::sleep(Duration::from_secs(count as u64)).await };
    service.topup(account, 100 * PRICE).await;
    let timeout = Some(Duration::from_secs(3600));
    let id = user.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap().id;
    wait(45).await;
    assert_eq!(told(), Vec::<serde_json::Value>::new());
    wait(40).await;
    assert_eq!(told().len(), 1, "{:?}", told());
    let first = &told()[0];
    assert_eq!((&first["used_up"], &first["threshold"]), (&false.into(), &low.into()));
    assert!(first["balance"].as_i64().is_some_and(|left| left > 0 && left < low), "{first}");
    assert!(first["grace_seconds"].is_null(), "{first}");
    // Paid, and low again; then nothing is left, which is another thing.
    service.topup(account, 100 * PRICE).await;
    wait(95).await;
    assert_eq!(told().len(), 2, "{:?}", told());
    wait(40).await;
    assert_eq!(told().len(), 3, "{:?}", told());
    assert_eq!((&told()[2]["used_up"], &told()[2]["grace_seconds"]), (&true.into(), &60.into()));
    until("it ends", || async { service.driver.alive() == 0 }).await;
    assert_eq!(told().len(), 3, "{:?}", told());
    // The last charge of a short one, which no visit of the meter sees.
    assert!(user.sandbox_destroy(&id).await.unwrap().already);
    let owed = -service.balance(account).await;
    service.topup(account, owed + low + PRICE).await;
    let id = user.sandbox_create(CreateSandbox { timeout, ..Default::default() }).await.unwrap().id;
    wait(3).await;
    user.sandbox_destroy(&id).await.unwrap();
    until("it is told", || async { told().len() == 4 }).await;
    webhooks.stop().await;
}
