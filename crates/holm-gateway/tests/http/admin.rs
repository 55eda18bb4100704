//! REST for administrators: accounts, keys, money, audit.

use holm_engine::KeyScope;
use serde_json::{Value, json};

use crate::client::{assert_matches, run};
use crate::site::{Site, with_keys};

#[test]
fn an_account_gets_a_key_and_money_and_both_are_written_down() {
    run(async {
        let site = Site::with(with_keys).await;
        let (_, admin) = site.key_with(&KeyScope::ALL).await;
        let ask = async |method: &str, path: &str, body: Value| {
            site.rest(method, path, &admin, body).await
        };
        let made = ask("POST", "/v1/accounts", json!({"name": "acme", "max_sandboxes": 1})).await;
        assert_eq!(made.status, 201, "{made:?}");
        assert_matches(&made.json(), json!({"name": "acme", "max_sandboxes": 1}));
        let account = made.json()["id"].as_str().expect("an id").to_owned();
        let path = format!("/v1/accounts/{account}");

        let payment = json!({"amount": 12.5, "reference": "inv-1"});
        for _ in 0..2 {
            let paid = ask("POST", &format!("{path}/topup"), payment.clone()).await;
            assert_eq!(paid.status, 201, "{paid:?}");
            assert_matches(&paid.json(), json!({"amount": 12.5, "number": 1, "kind": "topup"}));
        }
        let other = json!({"amount": 1, "reference": "inv-1"});
        assert_eq!(ask("POST", &format!("{path}/topup"), other).await.status, 409);
        for wrong in [json!(0), json!(-1), json!(1e12), json!("1"), json!(0.000_000_1)] {
            let refused = ask("POST", &format!("{path}/topup"), json!({"amount": wrong})).await;
            assert_eq!(refused.status, 400, "{wrong}");
        }
        assert_matches(&ask("GET", &path, Value::Null).await.json(), json!({"balance": 12.5}));
        let ledger = ask("GET", &format!("{path}/ledger"), Value::Null).await.json();
        assert_eq!(ledger["entries"].as_array().map(Vec::len), Some(1));

        let wanted = json!({"account_id": account, "name": "ci", "scopes": ["sandboxes"]});
        let key = ask("POST", "/v1/keys", wanted).await;
        assert_eq!(key.status, 201, "{key:?}");
        let (key, secret) = (key.json(), key.json()["secret"].as_str().expect("shown").to_owned());
        assert!(secret.starts_with(key["prefix"].as_str().expect("a prefix")));
        let create = site.rest("POST", "/v1/sandboxes", &secret, json!({})).await;
        assert_eq!(create.status, 201);
        let full = site.rest("POST", "/v1/sandboxes", &secret, json!({})).await;
        assert_eq!((full.status, &full.json()["error"]["type"]), (429, &json!("quota_exceeded")));
        let own = site.rest("GET", &path, &secret, Value::Null).await;
        assert_matches(&own.json(), json!({"balance": 12.5}));

        let list = ask("GET", &format!("/v1/keys?account_id={account}"), Value::Null).await;
        assert!(!String::from_utf8_lossy(&list.body).contains(&secret));
        assert_matches(&list.json()["keys"][0], json!({"name": "ci", "status": "active"}));
        let key_path = format!("/v1/keys/{}", key["id"].as_str().expect("an id"));
        assert_matches(
            &ask("DELETE", &key_path, Value::Null).await.json(),
            json!({"status": "revoked"}),
        );
        let refused = site.rest("GET", "/v1/usage", &secret, Value::Null).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["type"]),
            (401, &json!("unauthorized"))
        );

        // Events are written in the background.
        loop {
            let log = ask("GET", "/v1/audit?limit=1000", Value::Null).await.json();
            let events = log["events"].as_array().expect("events").clone();
            let wanted = ["account.create", "account.topup", "key.create", "key.revoke"];
            if wanted.iter().all(|action| events.iter().any(|event| event["action"] == *action)) {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn ordinary_keys_may_not_administer_and_see_only_their_own() {
    run(async {
        let site = Site::with(with_keys).await;
        let (_, key) = site.key().await;
        for (method, path, body) in [
            ("GET", "/v1/accounts", Value::Null),
            ("POST", "/v1/accounts", json!({"name": "x"})),
            ("GET", "/v1/accounts/acc_000000000000000000", Value::Null),
            ("GET", "/v1/accounts/acc_000000000000000000/ledger", Value::Null),
            ("POST", "/v1/accounts/acc_000000000000000000/topup", json!({"amount": 1})),
            ("GET", "/v1/keys", Value::Null),
            ("POST", "/v1/keys", json!({"account_id": "acc_000000000000000000", "name": "x"})),
            ("DELETE", "/v1/keys/key_000000000000000000", Value::Null),
            ("GET", "/v1/audit", Value::Null),
        ] {
            let reply = site.rest(method, path, &key, body).await;
            let error = &reply.json()["error"];
            assert_eq!((reply.status, &error["type"]), (403, &json!("forbidden")), "{path}");
            assert!(error["message"].as_str().is_some_and(|text| text.contains("admin")), "{path}");
        }
    });
}
