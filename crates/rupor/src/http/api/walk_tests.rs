//! A walk over the document: every operation of `/v1/openapi.json` is called with what it wants and with what it refuses,
//! and every answer is held to what the document says of it.

use std::collections::{BTreeMap, BTreeSet};

use domain::time::Span;
use serde_json::{Value, json};
use store::{ApiScope, NewAlert, Severity};

use super::asked_tests::{ask, token};
use crate::http::tests::{Answer, SECRET, Server};

/// What a schema of the document says against a value; `None`: it fits. Knows what our document uses, and says so of the rest.
fn against(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(target) = schema["$ref"].as_str() {
        let named = document.pointer(target.trim_start_matches('#')).unwrap_or_else(|| panic!("{target}"));
        return against(document, named, value);
    }
    for (key, _) in schema.as_object().into_iter().flatten() {
        let known = [
            "type",
            "properties",
            "required",
            "items",
            "enum",
            "oneOf",
            "allOf",
            "format",
            "description",
            "minimum",
            "maximum",
            "minItems",
            "maxItems",
            "minLength",
            "maxLength",
            "additionalProperties",
            "propertyNames",
            "default",
            "contentEncoding",
            "contentMediaType",
            "pattern",
        ];
        assert!(known.contains(&key.as_str()), "the walk does not know {key}: {schema}");
    }
    for (list, least) in [("oneOf", 1), ("allOf", usize::MAX)] {
        if let Some(options) = schema[list].as_array() {
            let fits = options.iter().filter(|option| against(document, option, value).is_none()).count();
            if fits < least.min(options.len()) {
                return Some(format!("{value} fits {fits} of {list} {options:?}"));
            }
        }
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is = |kind: &&str| match *kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the walk does not know the type {other}"),
    };
    if !kinds.is_empty() && !kinds.iter().any(is) {
        return Some(format!("{value} is not {kinds:?}"));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) && !value.is_null() {
        return Some(format!("{value} is none of {}", schema["enum"]));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            return Some(format!("{name} is missing in {value}"));
        }
    }
    let fields = schema["properties"].as_object();
    for (name, of) in fields.into_iter().flatten() {
        if let Some(found) = value.get(name) {
            let problem = against(document, of, found);
            if problem.is_some() {
                return problem.map(|problem| format!("{name}: {problem}"));
            }
        }
    }
    let items = value.as_array().filter(|_| schema["items"].is_object());
    items.into_iter().flatten().find_map(|item| against(document, &schema["items"], item))
}

struct Walk {
    server: Server,
    document: Value,
    all: String,
    /// By scope: who may do everything but this.
    without: BTreeMap<&'static str, String>,
    /// Who may do everything, elsewhere.
    elsewhere: String,
}

impl Walk {
    /// A node on which everything that can be asked for is there.
    async fn new() -> Walk {
        let server = Server::start(None).await;
        let (store, ws) = (server.store.clone(), server.ws);
        let all = token(&server, ws, "всё", &ApiScope::ALL).await;
        let mut without = BTreeMap::new();
        for scope in ApiScope::ALL {
            let others: Vec<ApiScope> = ApiScope::ALL.into_iter().filter(|other| *other != scope).collect();
            let name = format!("без {}", scope.as_str());
            without.insert(scope.as_str(), token(&server, ws, &name, &others).await);
        }
        let shop = store.create_workspace("Лавка").await.unwrap();
        let elsewhere = token(&server, shop, "чужой", &ApiScope::ALL).await;
        let body =
            json!({"text": "Пропала собака, такса Буся, рыжая, Тюмень. Тел. 8 901 000-00-11"}).to_string();
        assert_eq!(ask(&server, &all, "POST", "/v1/messages", &body).await.status, 202);
        let words = json!({"headline": "беда"});
        let trouble =
            NewAlert { key: "k".into(), kind: "lag".into(), severity: Severity::Act, words, told: false };
        store.watch(ws, vec![trouble], "узел", Span::from_secs(10)).await.unwrap();
        let document = server.ask("GET", "/v1/openapi.json", &[], "").await.json();
        Walk { server, document, all, without, elsewhere }
    }

    /// The document says that this may be answered, in this shape.
    fn judge(&self, operation: &Value, answer: &Answer, what: &str) {
        let said = &operation["responses"][answer.status.to_string()];
        assert!(said.is_object(), "{what}: {} is not in the document; {}", answer.status, answer.body);
        let (kind, content) = said["content"].as_object().and_then(|kinds| kinds.iter().next()).unwrap();
        assert!(
            answer.head.to_lowercase().contains(&format!("content-type: {kind}")),
            "{what}: {}",
            answer.head
        );
        let problem = against(&self.document, &content["schema"], &answer.json());
        assert_eq!(problem, None, "{what}: {}", answer.body);
    }

    async fn call(&self, key: &str, method: &str, path: &str, body: &str) -> Answer {
        ask(&self.server, key, method, path, body).await
    }
}

/// What an operation wants: the path, and the body.
fn wanted(operation: &str, path: &str) -> (String, String) {
    let channel = "%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB";
    let verb = match operation {
        "operateChannel" => "pause",
        "operateDelivery" => "cancel",
        "operateAccount" => "pause",
        "decideMessage" => "reject",
        _ => "cancel",
    };
    let path = path
        .replace("{id}", "1")
        .replace("{n}", "0")
        .replace("{channel}", channel)
        .replace("{account}", "%D0%B1%D0%BE%D1%82%20%D0%BA%D0%B0%D0%BD%D0%B0%D0%BB")
        .replace("{name}", "autumn")
        .replace("{verb}", verb);
    let body = match operation {
        "ingest" => json!({"posts": [{"text": "Найдена кошка"}]}),
        "createMessage" => json!({"text": "Найдена кошка", "kind": "found", "dry_run": true}),
        "newAudience" => json!({"name": "все", "filter": {}}),
        "importPeople" => json!({"account": "бот канал", "people": [{"address": 701, "name": "Анна"}]}),
        "suppress" => json!({"account": "бот канал", "addresses": ["702"]}),
        "unsuppress" => json!({"account": "бот канал", "address": "702"}),
        "newCampaign" => json!({"name": "autumn", "accounts": ["бот канал"], "text": "Здравствуйте!"}),
        "operateChannel" => json!({"for": "30m", "reason": "проба"}),
        "operateDelivery" | "operateCampaign" | "operateAccount" | "decideMessage" | "retryCampaign" => {
            json!({"reason": "проба"})
        }
        "requeueDeliveries" => json!({"code": "kicked"}),
        "cancelDeliveries" => json!({"status": "retry"}),
        "editCampaign" => json!({"text": "До свидания!"}),
        "chooseVariant" => json!({"variant": "b"}),
        "testCampaign" => json!({"account": "бот канал", "to": ["77"]}),
        "adapterSend" => {
            json!({"workspace_id": 1, "delivery_id": "1", "claim_token": "0189f7ea-0000-7000-8000-000000000001"})
        }
        "analyse" => {
            json!({"workspace_id": 1, "source": "push:сайт", "base": "4f", "body": {"text": "Пропала собака"}})
        }
        "keepMedia" => json!({"workspace_id": 1, "data": "AAAA"}),
        "botRead" => json!({"platform": "max", "key": "4f2a", "body": {}}),
        "botDecide" => json!({"turn": {}}),
        _ => return (path, String::new()),
    };
    (path, body.to_string())
}

/// Operations whose input here is well formed and still refused: the walk has no claim, no picture, no bot, no post that
/// waits, and a campaign that is a draft of one variant.
const REFUSED: [&str; 9] = [
    "adapterSend",
    "keepMedia",
    "botRead",
    "botDecide",
    "photoOfMessage",
    "decideMessage",
    "chooseVariant",
    "retryCampaign",
    "testCampaign",
];

#[tokio::test]
async fn every_operation_answers_as_the_document_says() {
    let walk = Walk::new().await;
    assert_eq!(walk.document["openapi"].as_str().map(|version| &version[..4]), Some("3.1."));
    let mut ids = BTreeSet::new();
    let paths = walk.document["paths"].as_object().unwrap();
    // Makers before the others: what they make is asked for later.
    let mut all: Vec<(&str, &str, &Value)> = paths
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().iter().map(move |(method, it)| (path.as_str(), method.as_str(), it))
        })
        .collect();
    all.sort_by_key(|(path, method, _)| {
        let makes = *method == "post" && (*path == "/v1/campaigns" || path.ends_with("/import"));
        (!makes, path.contains("{verb}"), path.len())
    });
    for (path, method, operation) in all {
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id) && operation["summary"].is_string(), "{id} stands twice, or has no summary");
        let method = method.to_uppercase();
        let (right, body) = wanted(id, path);
        let key = if id == "ingest" { SECRET } else { &walk.all };
        let answer = walk.call(key, &method, &right, &body).await;
        walk.judge(operation, &answer, &format!("{method} {right}"));
        assert_eq!(answer.status < 300, !REFUSED.contains(&id), "{id}: {answer:?}");
        if id == "openapi" {
            continue;
        }
        // Whoever may not.
        let nobody = walk.server.ask(&method, &right, &[("Content-Type", "application/json")], &body).await;
        walk.judge(operation, &nobody, id);
        assert_eq!(nobody.status, 401, "{id}");
        if id != "ingest" {
            let without = &walk.without[scope(operation)];
            let refused = walk.call(without, &method, &right, &body).await;
            walk.judge(operation, &refused, id);
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (403, "scope_missing"),
                "{id}: {refused:?}"
            );
        }
        let other = if method == "GET" { "DELETE" } else { "PUT" };
        assert_eq!(walk.call(key, other, &right, "").await.status, 405, "{other} {right}");
        if method == "GET" {
            if operation["parameters"].to_string().contains("\"cursor\"") {
                for (wrong, field) in [
                    ("limit=1000000000", "limit"),
                    ("limit=0", "limit"),
                    ("limit=x", "limit"),
                    ("cursor=1-abc", "cursor"),
                    ("odd=1", "odd"),
                    ("limit=1&limit=2", "limit"),
                ] {
                    let refused = walk.call(key, "GET", &format!("{right}?{wrong}"), "").await;
                    walk.judge(operation, &refused, wrong);
                    assert_eq!(
                        (refused.status, &refused.json()["field"]),
                        (422, &json!(field)),
                        "{id} {wrong}"
                    );
                }
            }
            continue;
        }
        for (wrong, statuses) in [
            ("{", &[400][..]),
            ("[]", &[400, 422]),
            ("{\"odd\": 1}", &[400, 422]),
            ("{\"text\": 1, \"text\": 2}", &[400, 422]),
        ] {
            let refused = walk.call(key, &method, &right, wrong).await;
            walk.judge(operation, &refused, &format!("{id} {wrong}"));
            assert!(statuses.contains(&refused.status), "{id} {wrong}: {refused:?}");
        }
    }
    assert_eq!(ids.len(), 49, "{ids:?}");
    assert_eq!(
        walk.server.messages().await,
        4,
        "the first, one by /v1/ingest, the words of the campaign and their edit; wrong input stored nothing"
    );
}

/// What a token must be allowed for this.
fn scope(operation: &Value) -> &str {
    operation["security"][0]["token"][0].as_str().unwrap_or_else(|| panic!("no scope: {operation}"))
}

/// Everything that a caller could change or come to know.
async fn everything(walk: &Walk) -> String {
    let (store, ws) = (&walk.server.store, walk.server.ws);
    let rows = (
        (store.channels(ws).await.unwrap(), store.accounts(ws).await.unwrap()),
        (store.messages(ws, 0, 100).await.unwrap(), store.recent_events(ws, 100).await.unwrap()),
        (store.campaigns(ws).await.unwrap(), store.audiences(ws).await.unwrap()),
        store.deliveries(ws, store::DeliveryFilter::default(), 100).await.unwrap(),
    );
    format!("{rows:#?}")
}

#[tokio::test]
async fn a_token_of_another_workspace_reaches_nothing_by_any_id_or_name() {
    let walk = Walk::new().await;
    for operation in ["newCampaign", "newAudience"] {
        let (path, body) =
            wanted(operation, if operation == "newCampaign" { "/v1/campaigns" } else { "/v1/audiences" });
        assert_eq!(walk.call(&walk.all, "POST", &path, &body).await.status, 201);
    }
    let before = everything(&walk).await;
    let mut n_named = 0;
    for (path, methods) in walk.document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            // Another orchestrator works for all workspaces; what it may do is proved by the token of each claim.
            if ["ingest", "openapi"].contains(&id) || scope(operation) == "adapter" {
                continue;
            }
            let (right, body) = wanted(id, path);
            let answer = walk.call(&walk.elsewhere, &method.to_uppercase(), &right, &body).await;
            // People are taken into an audience of one's own by its name; what it names beside is refused below.
            if path.contains('{') && id != "importPeople" {
                n_named += 1;
                assert_eq!(answer.status, 404, "{id}: {answer:?}");
                continue;
            }
            for own in ["Буся", "канал", "autumn"] {
                let said = answer.body.contains(own) && !body.contains(own);
                assert!(!said, "{id} tells of {own}: {}", answer.body);
            }
        }
    }
    assert!(n_named > 15, "{n_named}");
    for (path, body) in [
        ("/v1/messages", json!({"text": "a", "channels": ["канал"]})),
        ("/v1/campaigns", json!({"name": "x", "accounts": ["бот канал"], "text": "a"})),
        ("/v1/campaigns", json!({"name": "x", "accounts": ["бот"], "text": "a", "audience": "все"})),
        ("/v1/deliveries/cancel", json!({"channel": "канал"})),
        ("/v1/deliveries/requeue", json!({"channel": "канал"})),
        ("/v1/audiences/x/import", json!({"account": "бот канал", "people": [{"address": 701}]})),
        ("/v1/suppressions", json!({"account": "бот канал", "addresses": ["702"]})),
        ("/v1/suppressions/lift", json!({"account": "бот канал", "address": "702"})),
    ] {
        let refused = walk.call(&walk.elsewhere, "POST", path, &body.to_string()).await;
        assert_eq!(refused.status, 422, "{path} {body}: {refused:?}");
    }
    assert_eq!(everything(&walk).await, before, "nothing was changed");
}

#[tokio::test]
async fn what_is_not_there_is_404_and_ids_that_are_none_are_422() {
    let walk = Walk::new().await;
    for path in [
        "/v1/messages/99",
        "/v1/messages/99/deliveries",
        "/v1/cases/99",
        "/v1/campaigns/нет",
        "/v1/campaigns/x/preview",
        "/v1/campaigns/x/report",
        "/v1/audiences/x",
        "/v1/audiences/x/count",
        "/v1/audiences/x/people",
    ] {
        let path = path.replace("нет", "x");
        assert_eq!(walk.call(&walk.all, "GET", &path, "").await.status, 404, "{path}");
    }
    for path in ["/v1/messages/0", "/v1/messages/x", "/v1/cases/-1", "/v1/messages/99999999999999999999"] {
        let answer = walk.call(&walk.all, "GET", path, "").await;
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!("id")), "{path}");
    }
    for (path, status) in [
        ("/v1/deliveries/99/cancel", 404),
        ("/v1/deliveries/1/fly", 422),
        ("/v1/channels/x/pause", 404),
        ("/v1/campaigns/x/start", 404),
        ("/v1/campaigns/x/fly", 422),
    ] {
        assert_eq!(walk.call(&walk.all, "POST", path, "").await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_campaign_lives_by_the_api_as_by_the_command_line() {
    let walk = Walk::new().await;
    let people = (1..=3).map(|n| store::NewRecipient {
        user_id: n.to_string(),
        address: n.to_string(),
        attributes: json!({}),
        time_zone: None,
        status: store::RecipientStatus::Active,
        source: "import".into(),
    });
    let account = walk.server.store.accounts(walk.server.ws).await.unwrap()[0].account_id;
    walk.server.store.put_recipients(walk.server.ws, account, people.collect()).await.unwrap();
    let new =
        json!({"name": "осень", "accounts": ["бот канал"], "text": "Здравствуйте!", "policy": {"rate": 0.02}})
            .to_string();
    let made = walk.call(&walk.all, "POST", "/v1/campaigns", &new).await;
    assert_eq!((made.status, &made.json()["state"]), (201, &json!("draft")), "{made:?}");
    let again = walk.call(&walk.all, "POST", "/v1/campaigns", &new).await;
    assert_eq!(again.status, 422, "{again:?}");
    let odd = new.replace("rate", "speed").replace("осень", "зима");
    assert_eq!(walk.call(&walk.all, "POST", "/v1/campaigns", &odd).await.json()["field"], "policy");
    let at = "/v1/campaigns/%D0%BE%D1%81%D0%B5%D0%BD%D1%8C";
    let preview = walk.call(&walk.all, "GET", &format!("{at}/preview"), "").await.json();
    assert_eq!(
        (&preview["audience"], &preview["samples"][0]),
        (&json!(3), &json!("Здравствуйте!")),
        "{preview}"
    );
    assert_eq!(
        walk.call(&walk.all, "POST", &format!("{at}/pause"), "").await.status,
        422,
        "a draft cannot rest"
    );
    let started = walk.call(&walk.all, "POST", &format!("{at}/start"), "").await;
    assert_eq!((started.status, &started.json()["state"]), (200, &json!("preparing")), "{started:?}");
    let (store, ws) = (&walk.server.store, walk.server.ws);
    for _ in 0..20 {
        let campaign = store.campaigns(ws).await.unwrap().remove(0);
        if campaign.status == domain::campaign::CampaignStatus::Running {
            break;
        }
        engine::campaigns::step(store, campaign).await.unwrap();
    }
    let running = walk.call(&walk.all, "GET", at, "").await.json();
    assert_eq!((&running["state"], &running["total"]), (&json!("running"), &json!(3)), "{running}");
    let first = walk.call(&walk.all, "GET", &format!("{at}/report?limit=2"), "").await.json();
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = walk.call(&walk.all, "GET", &format!("{at}/report?limit=2&cursor={cursor}"), "").await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null), "{rest}");
    let part = |verb: &str| format!("{at}/{verb}");
    let of_bot = json!({"account": "бот канал"}).to_string();
    let rested = walk.call(&walk.all, "POST", &part("pause"), &of_bot).await.json();
    assert_eq!(
        (&rested["state"], rested["resting"].as_object().unwrap().len()),
        (&json!("running"), 1),
        "{rested}"
    );
    let goes_on = walk.call(&walk.all, "POST", &part("resume"), &of_bot).await.json();
    assert_eq!(goes_on["resting"], json!({}), "{goes_on}");
    let paused = walk.call(&walk.all, "POST", &format!("{at}/pause"), "{\"reason\": \"обед\"}").await.json();
    assert_eq!(paused["state"], "paused");
    assert_eq!(walk.call(&walk.all, "POST", &format!("{at}/resume"), "").await.json()["state"], "running");
    let cancelled = walk.call(&walk.all, "POST", &format!("{at}/cancel"), "").await.json();
    assert!(["cancelling", "cancelled"].contains(&cancelled["state"].as_str().unwrap()), "{cancelled}");
}

#[tokio::test]
async fn a_campaign_has_photos_buttons_and_variants_and_one_of_them_is_chosen() {
    let walk = Walk::new().await;
    let (store, ws) = (&walk.server.store, walk.server.ws);
    let people = (1..=40).map(|n| store::NewRecipient {
        user_id: n.to_string(),
        address: n.to_string(),
        attributes: json!({}),
        time_zone: None,
        status: store::RecipientStatus::Active,
        source: "import".into(),
    });
    let account = store.accounts(ws).await.unwrap()[0].account_id;
    store.put_recipients(ws, account, people.collect()).await.unwrap();
    let picture = platforms::base64::encode(&sandbox::pictures::Pictures::new(7).jpeg("афиша"));
    let photo = json!({"data": picture, "name": "afisha.jpg"});
    let button = json!({"text": "Билеты", "url": "https://example.org/t"});
    let new = json!({"name": "fair", "accounts": ["бот канал"], "text": "Ярмарка", "photos": [photo], "buttons": [button],
        "variants": [{"name": "b", "text": "Приходите", "weight": 3}, {"name": "plain", "text": "Скоро", "photos": [], "buttons": []}],
        "policy": {"rate": 0.02, "unsubscribe": false}});
    let made = walk.call(&walk.all, "POST", "/v1/campaigns", &new.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let campaign = store.campaigns(ws).await.unwrap().remove(0);
    let mut said = Vec::new();
    for variant in &campaign.variants {
        let payload = store.payloads(ws, vec![variant.message_id]).await.unwrap().remove(0).1;
        let (photos, buttons) = (payload["media"].as_array(), payload["buttons"].as_array());
        said.push((
            variant.name.clone(),
            variant.weight,
            payload["text"].as_str().unwrap().to_owned(),
            photos.map_or(0, Vec::len),
            buttons.map_or(0, Vec::len),
        ));
    }
    let expected = [("a", 1, "Ярмарка", 1, 1), ("b", 3, "Приходите", 1, 1), ("plain", 1, "Скоро", 0, 0)];
    let expected = expected.map(|(name, weight, text, photos, buttons)| {
        (name.to_owned(), weight, text.to_owned(), photos, buttons)
    });
    assert_eq!(said, expected);
    let preview = walk.call(&walk.all, "GET", "/v1/campaigns/fair/preview", "").await.json();
    let beside = |n: usize| (preview["said"][n]["pictures"].clone(), preview["said"][n]["buttons"].clone());
    assert_eq!((beside(0), beside(2)), ((json!(1), json!(["Билеты"])), (json!(0), json!([]))), "{preview}");

    let tested = walk
        .call(
            &walk.all,
            "POST",
            "/v1/campaigns/fair/test",
            &json!({"account": "бот канал", "to": ["7"]}).to_string(),
        )
        .await;
    assert_eq!(
        (tested.status, &tested.json()["queued"]),
        (200, &json!(3)),
        "one of each variant: {tested:?}"
    );
    let started = walk.call(&walk.all, "POST", "/v1/campaigns/fair/start", "").await;
    assert_eq!(started.status, 200, "{started:?}");
    for _ in 0..50 {
        let campaign = store.campaigns(ws).await.unwrap().remove(0);
        if campaign.status == domain::campaign::CampaignStatus::Running {
            break;
        }
        engine::campaigns::step(store, campaign).await.unwrap();
    }
    let early = walk.call(&walk.all, "POST", "/v1/campaigns/fair/choose", "{\"variant\": \"b\"}").await;
    assert_eq!((early.status, early.code().as_str()), (422, "refused"), "while it runs: {early:?}");
    assert_eq!(walk.call(&walk.all, "POST", "/v1/campaigns/fair/pause", "").await.status, 200);
    let chosen = walk.call(&walk.all, "POST", "/v1/campaigns/fair/choose", "{\"variant\": \"b\"}").await;
    assert_eq!(chosen.status, 200, "{chosen:?}");
    let campaign = store.campaigns(ws).await.unwrap().remove(0);
    let messages: BTreeSet<i64> = campaign.variants.iter().map(|variant| variant.message_id.0).collect();
    assert_eq!(messages.len(), 1, "everybody gets b: {:?}", campaign.variants);
}

#[tokio::test]
async fn a_campaign_that_cannot_be_said_is_refused_with_its_field_and_nothing_is_made() {
    let walk = Walk::new().await;
    let whole = json!({"name": "fair", "accounts": ["бот канал"], "text": "Ярмарка"});
    let with = |field: &str, value: Value| {
        let mut new = whole.clone();
        new[field] = value;
        new.to_string()
    };
    let variants: Vec<Value> = (0..20).map(|n| json!({"name": format!("v{n}"), "text": "a"})).collect();
    let buttons: Vec<Value> = (0..21).map(|_| json!({"text": "a", "url": "https://example.org"})).collect();
    for (body, field) in [
        (with("text", json!(" ")), "text"),
        (with("accounts", json!([])), "accounts"),
        (with("accounts", json!(["nobody"])), "accounts"),
        (with("audience", json!("nobody")), "audience"),
        (with("photos", json!([{"data": "AAAA"}])), "photos[0]"),
        (with("photos", json!(["https://example.org/a.jpg"])), "photos[0]"),
        (with("buttons", json!([{"text": "", "url": "https://example.org"}])), "buttons[0].text"),
        (with("buttons", json!([{"text": "a", "url": "javascript:alert(1)"}])), "buttons[0].url"),
        (with("buttons", json!(buttons)), "buttons"),
        (with("variants", json!([{"name": "a", "text": "b"}])), "variants[0].name"),
        (with("variants", json!([{"name": "b", "text": "b", "weight": 0}])), "variants[0].weight"),
        (with("variants", json!([{"name": "b", "text": ""}])), "variants[0].text"),
        (with("variants", json!([{"name": "b"}])), "variants[0].text"),
        (
            with("variants", json!([{"name": "b", "text": "b", "buttons": [{"text": "a", "url": "x"}]}])),
            "variants[0].buttons[0].url",
        ),
        (with("variants", json!(variants)), "variants"),
        (with("policy", json!({"rate": -1})), "policy"),
        (with("colour", json!("red")), "colour"),
    ] {
        let refused = walk.call(&walk.all, "POST", "/v1/campaigns", &body).await;
        assert!([400, 422].contains(&refused.status), "{body}: {refused:?}");
        assert_eq!(refused.json()["field"], field, "{body}: {refused:?}");
    }
    assert!(walk.server.store.campaigns(walk.server.ws).await.unwrap().is_empty());
    assert_eq!(walk.call(&walk.all, "POST", "/v1/campaigns", &whole.to_string()).await.status, 201);
    for (verb, body, field) in [
        ("start", "{\"at\": \"tomorrow\"}", "at"),
        ("pause", "{\"at\": \"2036-01-01T00:00:00Z\"}", "at"),
        ("cancel", "{\"account\": \"бот канал\"}", "account"),
        ("pause", "{\"account\": \"nobody\"}", "account"),
        ("choose", "{\"variant\": \"b\"}", "variant"),
        ("choose", "{}", "variant"),
        ("edit", "{\"text\": \"\"}", "text"),
        ("edit", "{\"text\": \"a\", \"photos\": [{\"data\": \"AAAA\"}]}", "photos[0]"),
        ("retry", "{\"code\": 7}", "code"),
        ("test", "{\"account\": \"nobody\", \"to\": [\"7\"]}", "account"),
        ("test", "{\"account\": \"бот канал\", \"to\": []}", "to"),
        ("fly", "", "verb"),
    ] {
        let refused = walk.call(&walk.all, "POST", &format!("/v1/campaigns/fair/{verb}"), body).await;
        assert!([400, 422].contains(&refused.status), "{verb} {body}: {refused:?}");
        assert_eq!(refused.json()["field"], field, "{verb} {body}: {refused:?}");
    }
    let scheduled =
        walk.call(&walk.all, "POST", "/v1/campaigns/fair/start", "{\"at\": \"2036-01-01T00:00:00Z\"}").await;
    assert_eq!(scheduled.status, 422, "nobody to write to: {scheduled:?}");
}

#[tokio::test]
async fn people_are_taken_in_counted_and_suppressed_by_the_api() {
    let walk = Walk::new().await;
    let post = async |path: &str, body: Value| walk.call(&walk.all, "POST", path, &body.to_string()).await;
    let get = async |path: &str| walk.call(&walk.all, "GET", path, "").await.json();
    let bot = "бот канал";
    // A condition that is none would fit nobody, for ever.
    for (filter, words) in [
        (json!({"all": ["city"]}), "\"city\" is no condition; write attribute:value"),
        (json!({"any": ["x:"]}), "is no condition"),
        (json!({"al": []}), "cannot be read"),
    ] {
        let refused = post("/v1/audiences", json!({"name": "пермь", "filter": filter})).await;
        assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("filter")), "{refused:?}");
        assert!(refused.body.contains(&words.replace('"', "\\\"")), "{refused:?}");
    }
    let made = post("/v1/audiences", json!({"name": "perm", "filter": {"all": ["city:пермь"]}})).await;
    assert_eq!(made.status, 201, "{made:?}");

    // One bad line refuses the call, with its place; nothing is half done.
    let people = |last: Value| {
        let some =
            [json!({"address": 703, "city": "Тверь"}), json!({"address": "701", "city": "Пермь"}), last];
        json!({"account": bot, "people": some})
    };
    let refused = post("/v1/audiences/list/import", people(json!({"address": "@masha"}))).await;
    assert_eq!((refused.status, &refused.json()["field"]), (422, &json!("people[2]")), "{refused:?}");
    assert_eq!(walk.call(&walk.all, "GET", "/v1/audiences/list", "").await.status, 404);
    let good = people(json!({"address": "702", "city": "Пермь", "time_zone": "Asia/Yekaterinburg"}));
    let taken = post("/v1/audiences/list/import", good.clone()).await.json();
    assert_eq!((&taken["imported"], &taken["updated"]), (&json!(3), &json!(0)), "{taken}");
    assert_eq!(post("/v1/audiences/list/import", good).await.json()["updated"], 3, "again is the same");
    assert_eq!(get("/v1/audiences/list").await["people"], 3);
    let nobody = post("/v1/audiences/list/import", json!({"account": "нет", "people": [{}]})).await;
    assert_eq!(nobody.json()["field"], "account", "{nobody:?}");

    let first = get("/v1/audiences/perm/people?limit=1").await;
    assert_eq!(first["items"][0]["address"], "701", "{first}");
    let next = format!("/v1/audiences/perm/people?cursor={}", first["next_cursor"].as_str().unwrap());
    let rest = get(&next).await;
    assert_eq!((&rest["items"][0]["address"], &rest["next_cursor"]), (&json!("702"), &Value::Null), "{rest}");
    assert_eq!(rest["items"].as_array().unwrap().len(), 1, "{rest}");

    let suppress =
        json!({"account": bot, "addresses": ["702", "704"], "everywhere": true, "reason": "жалоба"});
    assert_eq!(post("/v1/suppressions", suppress.clone()).await.json()["suppressed"], 2);
    assert_eq!(post("/v1/suppressions", suppress).await.json()["suppressed"], 0, "again is the same");
    let event = walk.server.store.recent_events(walk.server.ws, 1).await.unwrap().remove(0);
    assert_eq!((&event.detail["suppressed"], &event.detail["by"]), (&json!(2), &json!("token всё")));
    assert_eq!(
        get("/v1/audiences/perm/count").await,
        json!({"audience": "perm", "people": 2, "reachable": 1})
    );
    let listed = get("/v1/suppressions?limit=1").await;
    let told = &listed["items"][0];
    assert_eq!(
        (&told["address"], &told["account"], &told["reason"], &told["origin"]),
        (&json!("702"), &Value::Null, &json!("manual"), &json!("operator")),
        "{listed}"
    );
    let next = format!("/v1/suppressions?cursor={}", listed["next_cursor"].as_str().unwrap());
    assert_eq!(get(&next).await["items"][0]["address"], "704");

    let lift = |everywhere| json!({"account": bot, "address": "702", "everywhere": everywhere});
    let refused = post("/v1/suppressions/lift", lift(false)).await;
    assert!(refused.status == 422 && refused.body.contains("on every bot of the platform"), "{refused:?}");
    let lifted = post("/v1/suppressions/lift", lift(true)).await.json();
    assert_eq!((&lifted["suppressed"], &lifted["status"]), (&json!(false), &json!("active")), "{lifted}");
    assert_eq!(get("/v1/audiences/perm/count").await["reachable"], 2);
}
