//! Accounts, keys and settings: `holm account`, `holm key`, `holm config`, beside a running service.

use crate::common::{Exit, Home, Serve, Value, as_root, as_rootless, json};

as_root!(
    case_73_keys_are_made_and_revoked_beside_a_running_service,
    an_account_without_money_is_refused_until_somebody_pays,
    an_account_has_its_own_limit,
    accounts_can_be_made_before_the_first_start,
    the_settings_file_is_read_and_shown,
    wrong_use_is_said,
);
as_rootless!(case_73_keys_are_made_and_revoked_beside_a_running_service);

fn done(exit: &Exit) -> String {
    assert_eq!(exit.code(), Some(0), "{}", exit.err());
    exit.out().trim_end().to_owned()
}

fn read(exit: &Exit) -> Value {
    serde_json::from_str(&done(exit)).expect("JSON")
}

/// A call with this key that needs no session.
fn call(serve: &Serve, key: &str, name: &str, arguments: &Value) -> (u16, Value) {
    let answer = serve.with_key(key).stateless(name, arguments);
    let mut reply = answer.json();
    (answer.status, reply["result"]["structuredContent"].take())
}

fn case_73_keys_are_made_and_revoked_beside_a_running_service(home: &Home) {
    let serve = home.serve(&[], &[]);
    let account = done(&home.holm(&["account", "create", "ci"]));
    let made = home.holm(&["key", "create", "ci", "--name", "laptop"]);
    let key = done(&made);
    assert!(key.starts_with("holm_sk_") && !key.contains('\n'), "not a key alone");
    assert!(made.err().contains("not shown again"), "{}", made.err());
    assert_eq!(call(&serve, &key, "list_sandboxes", &json!({})).0, 200);
    let listed = read(&home.holm(&["key", "list", "ci", "--json"]));
    let row = &listed[0];
    assert_eq!((&row["account"], &row["status"]), (&json!(account), &json!("active")));
    assert_eq!(row["scopes"], json!(["read", "sandboxes"]));
    assert_eq!(key.get(..14), row["prefix"].as_str());
    let table = done(&home.holm(&["key", "list"]));
    assert!(!table.contains(&key) && table.contains("laptop"), "{table}");
    // In an open session, too.
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let session = serve.post(&[("x-api-key", &key)], &initialize).session();
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let headers = [("x-api-key", key.as_str()), ("mcp-session-id", session.as_str())];
    assert_eq!(serve.post(&headers, &ping).status, 200);
    done(&home.holm(&["key", "revoke", row["id"].as_str().expect("an id")]));
    assert_eq!(serve.post(&headers, &ping).status, 401);
    assert_eq!(call(&serve, &key, "list_sandboxes", &json!({})).0, 401);
    let expiring = read(&home.holm(&["key", "create", "ci", "--expires-in", "30d", "--json"]));
    assert_eq!(expiring["status"], "active");
    assert!(expiring["expires_at"].is_string(), "{expiring}");
    serve.end();
}

fn an_account_without_money_is_refused_until_somebody_pays(home: &Home) {
    std::fs::write(home.data().join("config.toml"), "[billing]\nsmall = 14\ncurrency = 'EUR'\n")
        .expect("a settings file");
    let serve = home.serve(&[], &[]);
    let key = serve.key.clone().expect("a key");
    let (_, info) = call(&serve, &key, "get_service_info", &json!({}));
    assert!(info.to_string().contains("EUR"), "{info}");
    let (_, refused) = call(&serve, &key, "create_sandbox", &json!({}));
    assert_eq!(refused["error"]["code"], "insufficient_balance", "{refused}");
    let paid = home.holm(&["account", "topup", "first", "2.50", "--reference", "one"]);
    assert!(done(&paid).contains("has 2.50 EUR now"), "{}", paid.out());
    let again = home.holm(&["account", "topup", "first", "2.50", "--reference", "one", "--json"]);
    assert_eq!(read(&again)["balance"], 2_500_000, "the same payment counts once");
    let (_, made) = call(&serve, &key, "create_sandbox", &json!({}));
    assert_eq!(made["status"], "running", "{made}");
    let (_, usage) = call(&serve, &key, "get_usage", &json!({}));
    assert!(usage.to_string().contains("EUR"), "{usage}");
    call(&serve, &key, "destroy_sandbox", &json!({"sandbox_id": made["sandbox_id"]}));
    let listed = read(&home.holm(&["account", "list", "--json"]));
    let first = listed.as_array().expect("a list").iter().find(|row| row["name"] == "first");
    let balance = first.expect("the first account")["balance"].as_i64().expect("a number");
    assert!((2_400_000..=2_500_000).contains(&balance), "{balance}");
    serve.end();
}

fn an_account_has_its_own_limit(home: &Home) {
    let serve = home.serve(&["--max-sandboxes", "2"], &[]);
    done(&home.holm(&["account", "create", "small", "--max-sandboxes", "1"]));
    let key = done(&home.holm(&["key", "create", "small"]));
    let (_, made) = call(&serve, &key, "create_sandbox", &json!({}));
    assert_eq!(made["status"], "running", "{made}");
    let (_, refused) = call(&serve, &key, "create_sandbox", &json!({}));
    assert_eq!(refused["error"]["code"], "quota_exceeded", "{refused}");
    // Others have the service's limit, whatever this one does.
    let other = serve.key.clone().expect("a key");
    for expected in [true, true, false] {
        let (_, made) = call(&serve, &other, "create_sandbox", &json!({}));
        assert_eq!(made["status"] == "running", expected, "{made}");
    }
    serve.end();
}

fn accounts_can_be_made_before_the_first_start(home: &Home) {
    done(&home.holm(&["account", "create", "early"]));
    let key = done(&home.holm(&["key", "create", "early"]));
    // A key is there, so none is made.
    let serve = home.serve(&["--auth", "keys"], &[]);
    assert!(!home.data().join("first-key").exists());
    assert!(serve.announced.contains("holm key create"), "{}", serve.announced);
    assert_eq!(call(&serve, &key, "list_sandboxes", &json!({})).0, 200);
    serve.end();
}

fn the_settings_file_is_read_and_shown(home: &Home) {
    let file = home.data().join("config.toml");
    std::fs::write(&file, "[sandboxes]\nmax_per_account = 3\n").expect("a settings file");
    let shown = read(&home.holm(&["config", "--port", "0", "--json"]));
    let find = |key: &str| {
        let rows = shown["settings"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["key"] == key).expect(key);
        (row["value"].clone(), row["from"].clone())
    };
    let file = json!(file.display().to_string());
    assert_eq!(find("sandboxes.max_per_account"), (json!("3"), file));
    assert_eq!(find("server.port"), (json!("0"), json!("--port")));
    assert_eq!(find("data_dir").1, "HOLM_DATA_DIR");
    let table = done(&home.holm(&["config"]));
    assert!(table.starts_with("SETTING"), "{table}");
    let serve = home.serve(&[], &[("HOLM_LOG_FORMAT", "json")]);
    let (_, info) =
        call(&serve, serve.key.as_deref().expect("a key"), "get_service_info", &json!({}));
    assert_eq!(info["limits"]["max_sandboxes"], 3, "{info}");
    let log = serve.stderr();
    let line = log.lines().next().expect("a line");
    assert!(serde_json::from_str::<Value>(line).is_ok_and(|line| line["level"] == "INFO"), "{log}");
    serve.end();
}

fn wrong_use_is_said(home: &Home) {
    let check = |arguments: &[&str], code: i32, part: &str| {
        let exit = home.holm(arguments);
        assert_eq!(exit.code(), Some(code), "{arguments:?}: {}", exit.err());
        assert!(exit.err().contains(part), "{arguments:?}: {}", exit.err());
        assert_eq!(exit.out(), "");
    };
    check(&["key", "create", "nobody"], 2, "there is no account `nobody`");
    check(&["key", "create", "acc_0123456789abcdef01"], 1, "there is no account");
    check(&["key", "revoke", "holm_sk_secret"], 2, "key_");
    check(&["key", "create", "x", "--scopes", "everything"], 2, "everything");
    check(&["account", "topup", "x", "-1"], 2, "-1");
    check(&["account", "topup", "x", "0"], 2, "no amount above 0");
    check(&["account", "create", ""], 2, "name must have");
    done(&home.holm(&["account", "create", "twice"]));
    done(&home.holm(&["account", "create", "twice"]));
    check(&["key", "create", "twice"], 2, "several accounts");
    std::fs::write(home.data().join("config.toml"), "sever.port = 1\n").expect("written");
    check(&["config"], 2, "do you mean server.port?");
}
