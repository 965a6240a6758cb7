//! Catalogues: which request finds which row, what is refused, and what a file may say.

use std::time::Duration;

use http::{Method, StatusCode};
use reqwest::Url;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::{
    Endpoint, EndpointCatalog, KeyContract, ReportSlot, Row, SafeRetry,
    errors::CatalogError,
    testing::{Draws, Scripted, Step},
};

const API: &str = "https://api.example.com";

fn client(catalog: EndpointCatalog, scripted: &Scripted) -> ClientWithMiddleware {
    let retry = SafeRetry::new().with_catalog(catalog).with_draws(Draws::constant(reqwest_safe_retry::policy::Draw::LEAST));
    ClientBuilder::new(reqwest::Client::new()).with(retry).with(scripted.clone()).build()
}

/// The name of the row that marks a request.
async fn row_of(catalog: &EndpointCatalog, method: Method, url: &str) -> Option<String> {
    let scripted = Scripted::new([Step::status(200)]);
    let slot = ReportSlot::new();
    let request = client(catalog.clone(), &scripted).request(method, Url::parse(url).unwrap()).with_extension(slot.clone());
    request.send().await.unwrap();
    slot.take().unwrap().endpoint().map(ToOwned::to_owned)
}

fn named(name: &'static str) -> Endpoint {
    Endpoint::unprotected_write().named(name)
}

#[tokio::test]
async fn a_request_finds_its_row_by_origin_method_and_path() {
    let catalog = EndpointCatalog::new()
        .with_rows(
            API,
            [
                Row::post("/orders", named("order")),
                Row::get("/orders/{id}", named("see")),
                Row::get("/orders/latest", named("latest")),
                Row::put("/orders/{id}/note", named("note")).or(Method::PATCH).or(Method::PUT),
                Row::post("/orders/{id}:cancel", named("cancel")),
                Row::delete("/files/{*path}", named("delete")),
                Row::get("/café/{{id}}", named("odd")),
                Row::get("/", named("root")),
            ],
        )
        .unwrap()
        .with_row("http://localhost:8080", Row::post("/orders", named("local")))
        .unwrap();

    let cases = [
        (Method::POST, "https://api.example.com/orders", Some("order")),
        (Method::POST, "https://api.example.com:443/orders?dry=1#x", Some("order")),
        (Method::POST, "https://user:secret@API.example.com/orders", Some("order")),
        (Method::POST, "https://api.example.com/x/../orders", Some("order")),
        (Method::POST, "https://api.example.com/%6Frder%73", Some("order")),
        (Method::POST, "https://api.example.com/orders/", None),
        (Method::POST, "https://api.example.com//orders", None),
        (Method::POST, "https://api.example.com/Orders", None),
        (Method::POST, "http://api.example.com/orders", None),
        (Method::POST, "https://api.example.com:8443/orders", None),
        (Method::POST, "https://example.com/orders", None),
        (Method::PUT, "https://api.example.com/orders", None),
        (Method::GET, "https://api.example.com/orders/7", Some("see")),
        (Method::HEAD, "https://api.example.com/orders/7", None),
        (Method::GET, "https://api.example.com/orders/a%2Fb", Some("see")),
        (Method::GET, "https://api.example.com/orders/a/b", None),
        (Method::GET, "https://api.example.com/orders/latest", Some("latest")),
        (Method::GET, "https://api.example.com/orders/late", Some("see")),
        (Method::PUT, "https://api.example.com/orders/7/note", Some("note")),
        (Method::PATCH, "https://api.example.com/orders/7/note", Some("note")),
        (Method::POST, "https://api.example.com/orders/7:cancel", Some("cancel")),
        (Method::DELETE, "https://api.example.com/files/a/b/c", Some("delete")),
        (Method::DELETE, "https://api.example.com/files/", None),
        (Method::GET, "https://api.example.com/caf%C3%A9/{id}", Some("odd")),
        (Method::GET, "https://api.example.com/caf%c3%a9/%7bid%7D", Some("odd")),
        (Method::GET, "https://api.example.com", Some("root")),
        (Method::POST, "http://localhost:8080/orders", Some("local")),
        (Method::POST, "http://localhost/orders", None),
    ];
    for (method, url, expected) in cases {
        assert_eq!(row_of(&catalog, method.clone(), url).await.as_deref(), expected, "{method} {url}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_marks_and_an_extension_beats_it() {
    let catalog = EndpointCatalog::new().with_row(API, Row::post("/orders", Endpoint::keyed_write(KeyContract::STRIPE))).unwrap();
    let url = format!("{API}/orders");

    let scripted = Scripted::new([Step::status(503), Step::status(201)]);
    let answer = client(catalog.clone(), &scripted).post(&url).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::CREATED);
    let keys: Vec<_> = scripted.requests().iter().map(|sent| sent.header("idempotency-key").map(ToOwned::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1], "one key on both attempts");

    let scripted = Scripted::new([Step::status(503), Step::status(201)]);
    let answer = client(catalog, &scripted).post(&url).with_extension(Endpoint::never_resend()).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[test]
fn rows_that_claim_the_same_request_are_refused_by_name() {
    let one = |path: &'static str| EndpointCatalog::new().with_row(API, Row::get(path, Endpoint::read()).or(Method::HEAD)).unwrap();
    for (first, second) in [
        ("/orders", "/orders"),
        ("/orders/{id}", "/orders/{order}"),
        ("/orders/{id}/items", "/orders/{order}/items"),
        ("/orders", "/%6Frders"),
        ("/caf%c3%a9", "/café"),
    ] {
        let error = one(first).with_row("https://API.example.com:443/", Row::new(Method::HEAD, second, Endpoint::read())).unwrap_err();
        let expected = CatalogError::Overlap { row: format!("HEAD {API}{second}"), other: format!("GET, HEAD {API}{first}") };
        assert_eq!(error, expected);
        assert!(error.to_string().contains(second) && error.to_string().contains(first), "{error}");

        let _other_method = one(first).with_row(API, Row::post(second, Endpoint::read())).unwrap();
        let _other_origin = one(first).with_row("https://api.example.org", Row::get(second, Endpoint::read())).unwrap();
    }
    let _more_specific = one("/orders/{id}").with_row(API, Row::get("/orders/latest", Endpoint::read())).unwrap();
}

#[tokio::test]
async fn the_more_specific_of_two_templates_wins_however_they_were_added() {
    // Each before the one below it, for the request that stands beside.
    let order = [
        ("/orders/latest", "/orders/latest"),
        ("/orders/latest:{verb}", "/orders/latest:cancel"),
        ("/orders/{id}:cancel", "/orders/7:cancel"),
        ("/orders/{id}", "/orders/7"),
        ("/orders/x{*rest}", "/orders/xa/b"),
        ("/orders/{*rest}", "/orders/7/items"),
        ("/{collection}/7", "/invoices/7"),
        ("/{*rest}", "/orders/"),
    ];
    let rows = || order.map(|(template, _)| Row::get(template, named(template)));
    let forwards = EndpointCatalog::new().with_rows(API, rows()).unwrap();
    let backwards = EndpointCatalog::new().with_rows(API, rows().into_iter().rev()).unwrap();
    for (template, path) in order {
        for catalog in [&forwards, &backwards] {
            assert_eq!(row_of(catalog, Method::GET, &format!("{API}{path}")).await.as_deref(), Some(template), "{path}");
        }
    }
}

#[test]
fn a_parameter_in_the_spelling_of_other_routers_is_refused_with_the_right_one() {
    let cases =
        [("/*", "/{*rest}"), ("/files/**", "/{*rest}"), ("/files/*path", "/{*path}"), ("/orders/:id/note", "/{id}"), ("/o/<id>", "/{id}")];
    let cases = cases.into_iter().chain([("/shops/*/orders", "/{any}")]);
    for (path, instead) in cases {
        let error = EndpointCatalog::new().with_row(API, Row::get(path, Endpoint::read())).unwrap_err();
        assert!(error.to_string().contains(&format!("write `{instead}`")) && error.to_string().contains(path), "{error}");
    }
}

#[test]
fn a_catalogue_that_was_refused_leaves_its_clones_alone() {
    let catalog = EndpointCatalog::new().with_row(API, Row::get("/a", Endpoint::read())).unwrap();
    catalog.clone().with_row(API, Row::get("/a", Endpoint::read())).unwrap_err();
    assert_eq!(format!("{catalog:?}"), "[GET https://api.example.com/a]");
}

#[test]
fn what_is_no_origin_is_refused_without_repeating_it() {
    for text in ["", "api.example.com", "https://", "ftp://a", "https://a/v1", "https://a?x", "https://a#x", "https://user:hunter2@a"] {
        let error = EndpointCatalog::new().with_row(text, Row::get("/", Endpoint::read())).unwrap_err();
        assert_eq!(error, CatalogError::Origin, "{text}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn a_row_with_a_query_does_not_show_it() {
    let row = Row::post("/orders?token=S3CRET", Endpoint::read());
    assert_eq!(format!("{row:?}").find("S3CRET"), None);
}

#[test]
fn a_path_template_that_cannot_be_read_is_refused_by_name() {
    for path in ["", "orders", "/orders?id={id}", "/a#b", "/{a}{b}", "/{}", "/{a", "/a}", "/{*rest}/b", "https://a/b"] {
        let error = EndpointCatalog::new().with_row(API, Row::get(path, Endpoint::read())).unwrap_err();
        let shown = path.split(['?', '#']).next().unwrap();
        assert_eq!(error, CatalogError::Path { row: format!("GET {API}{shown}") }, "what stands behind a path may be a token");
    }
}

const FULL: &str = r#"
[[endpoint]]
origin = "https://api.example.com"
method = ["PUT", "PATCH"]
path = "/orders/{order}/capture"
effect = { keyed_write = { header = "x-key", format = "quoted", remembered_for = "2h", source = "caller_must", unique_within = "endpoint", replays = "settled", longest = 64, in_progress = 409, mismatch = 422, replay_marker = "x-replayed", first_sent_header = "x-first" } }
name = "capture"
owner = "payments"
deadline = "1m 30s"
attempt_limit = 5
settling = "250ms"
attempts = 4
reading_body = 65536
trusting_refusal = [429, 503]
refreshed_after = [401]
status_url = { url = "/captures/{order}?by={key}", applied = [208], absent = [404], in_progress = [202], undecided = [403] }

[[endpoint]]
origin = "https://api.example.com"
method = "GET"
path = "/orders/{order}"
effect = "read"
"#;

/// TOML as JSON: the same rows.
fn as_json(text: &str) -> String {
    serde_json::to_string_pretty(&toml::from_str::<serde_json::Value>(text).unwrap()).unwrap()
}

#[test]
fn toml_json_and_code_say_the_same() {
    let from_toml = EndpointCatalog::from_toml(FULL).unwrap();
    let from_json = EndpointCatalog::from_json(&as_json(FULL)).unwrap();
    assert_eq!(from_toml.audit().to_string(), from_json.audit().to_string());
    assert_eq!(
        format!("{from_toml:?}"),
        "[PUT, PATCH https://api.example.com/orders/{order}/capture, GET https://api.example.com/orders/{order}]"
    );
    let audit = from_toml.audit();
    let [capture, read] = audit.rows() else { panic!("two rows") };
    assert_eq!((capture.name(), capture.owner()), (Some("capture"), Some("payments")));
    assert_eq!((capture.deadline(), capture.attempt_limit()), (Some(Duration::from_secs(90)), Some(Duration::from_secs(5))));
    assert_eq!((capture.attempts(), read.attempts()), (4, 3));
    assert!(capture.because().contains("2h, then the probe"), "{}", capture.because());
    assert!(EndpointCatalog::from_toml("").unwrap().audit().rows().is_empty());
    assert!(EndpointCatalog::from_json("{}").unwrap().audit().rows().is_empty());
}

#[test]
fn every_preset_can_be_named() {
    let presets = [
        "stripe",
        "stripe_v1",
        "stripe_v2",
        "azure_communication",
        "paypal_orders",
        "paypal_payments",
        "adyen",
        "checkout_com",
        "truelayer",
        "whop",
        "fullstory",
    ];
    let row = |contract: &str| {
        let text =
            format!("[[endpoint]]\norigin = \"{API}\"\nmethod = \"POST\"\npath = \"/\"\neffect = {{ keyed_write = {{ {contract} }} }}\n");
        EndpointCatalog::from_toml(&text).map(|catalog| catalog.audit().rows()[0].because().to_owned())
    };
    for preset in presets {
        row(&format!("preset = \"{preset}\"")).unwrap();
    }
    for preset in ["ietf", "oasis"] {
        row(&format!("preset = \"{preset}\"")).unwrap_err();
        row(&format!("preset = \"{preset}\", remembered_for = \"1h\"")).unwrap();
    }
    assert!(row("preset = \"stripe\"").unwrap().contains("24h"));
    assert!(row("preset = \"stripe\", remembered_for = \"1h\"").unwrap().contains("for 1h"));
}

#[test]
fn an_error_in_a_file_names_the_line_and_the_field() {
    let cases = [
        ("deadline = \"1m 30s\"", "deadline = \"soon\"", "deadline", 9, "a duration such as"),
        ("deadline = \"1m 30s\"", "deadline = 1.5", "deadline", 9, "a duration such as"),
        ("deadline = \"1m 30s\"", "deadline = -1", "deadline", 9, "a duration such as"),
        ("deadline = \"1m 30s\"", "whitin = \"1m\"", "whitin", 9, "unknown field"),
        ("attempts = 4", "attempts = \"4\"", "attempts", 12, "u32"),
        ("[\"PUT\", \"PATCH\"]", "[\"PUT\", \"patch\"]", "method", 4, "a method in capitals"),
        ("[\"PUT\", \"PATCH\"]", "[]", "method", 4, "a method in capitals"),
        ("[\"PUT\", \"PATCH\"]", "7", "method", 4, "a method in capitals"),
        ("quoted", "curly", "effect.keyed_write.format", 6, "unknown variant `curly`"),
        ("header = \"x-key\"", "header = \"x key\"", "effect.keyed_write.header", 6, "the name of a header"),
        ("header = \"x-key\", ", "", "effect.keyed_write.header", 2, "missing field"),
        ("header = \"x-key\"", "preset = \"stripe\"", "effect.keyed_write.preset", 2, "its own header"),
        ("remembered_for = \"2h\", ", "", "effect.keyed_write.remembered_for", 2, "missing field"),
        ("longest = 64", "longest = 0", "effect.keyed_write.longest", 2, "no key"),
        ("in_progress = 409", "in_progress = 1", "effect.keyed_write.in_progress", 6, "a status"),
        ("in_progress = 409", "in_progres = 409", "effect.keyed_write.in_progres", 6, "unknown field"),
        ("[429, 503]", "[429, 5030]", "trusting_refusal[1]", 14, "a status"),
        ("/captures/{order}", "/captures/{id}", "status_url", 2, "a parameter that the path does not have"),
        ("[401]", "[4010]", "refreshed_after[0]", 15, "a status"),
        ("absent = [404]", "absnt = [404]", "status_url.absnt", 16, "unknown field"),
        ("https://api.example.com\"\nmethod = [", "api.example.com\"\nmethod = [", "origin", 2, "not an origin"),
        ("/orders/{order}/capture", "orders/{order}/capture", "path", 2, "cannot be read"),
        ("/orders/{order}/capture", "/orders/*", "path", 2, "write `/{*rest}`"),
        ("/orders/{order}/capture", "/*/capture", "path", 2, "write `/{any}`"),
        ("name = \"capture\"", "name = 7", "name", 7, "a string"),
    ];
    for (good, bad, field, line, message) in cases {
        assert!(FULL.contains(good), "{good}");
        let text = FULL.replacen(good, bad, 1);
        let CatalogError::File(error) = EndpointCatalog::from_toml(&text).unwrap_err() else { panic!("an error of the file: {bad}") };
        assert_eq!((error.line(), error.field()), (line, format!("endpoint[0].{field}").as_str()), "{bad}: {error}");
        assert!(error.to_string().contains(message), "{bad}: {error}");

        let json = as_json(&text);
        let CatalogError::File(error) = EndpointCatalog::from_json(&json).unwrap_err() else { panic!("an error of the file: {bad}") };
        assert_eq!(error.field(), format!("endpoint[0].{field}"), "{bad}: {error}");
        assert!(error.to_string().contains(message), "{bad}: {error}");
        let last = field.rsplit('.').next().unwrap().split('[').next().unwrap();
        let at = json.lines().position(|line| line.contains(&format!("\"{last}\""))).map_or(3, |line| line + 1);
        let row = json.lines().position(|line| line.contains("    {")).unwrap() + 1;
        // What concerns the row is named where it begins; inside a list or a table the error stands
        // a few lines behind its name.
        let expected = if line == 2 { row..row + 1 } else { at..at + 8 };
        assert!(expected.contains(&error.line()), "{bad}: {error}, but the field is in line {at}\n{json}");
    }
}

#[test]
fn what_concerns_a_whole_file_or_row_is_named_too() {
    let refused = |text: &str| EndpointCatalog::from_toml(text).map_err(|error| std::error::Error::source(&error).unwrap().to_string());
    let syntax = refused("[[endpoint]]\norigin = \n").unwrap_err();
    assert!(syntax.starts_with("line 2: "), "{syntax}");
    let missing = refused("\n[[endpoint]]\norigin = \"https://a\"\nmethod = \"GET\"\npath = \"/\"\n").unwrap_err();
    assert!(missing.starts_with("line 2, endpoint[0]: missing field `effect`"), "{missing}");
    let unknown = refused("[[endpoints]]\n").unwrap_err();
    assert!(unknown.starts_with("line 1, endpoints: unknown field"), "{unknown}");
    let twice = refused(&format!("{FULL}\n{FULL}")).unwrap_err();
    assert!(twice.starts_with("line 25, endpoint[2]: two rows claim the same requests: PUT, PATCH https://api"), "{twice}");

    let refused = |text: &str| EndpointCatalog::from_json(text).map_err(|error| std::error::Error::source(&error).unwrap().to_string());
    let syntax = refused("{\n\"endpoint\": [,]}").unwrap_err();
    assert!(syntax.starts_with("line 2"), "{syntax}");
    let row = r#"{"origin": "https://a", "method": "GET", "path": "/", "effect": "read"}"#;
    let twice = refused(&format!("{{\"endpoint\": [\n{row},\n{row}]}}")).unwrap_err();
    assert!(twice.starts_with("line 3, endpoint[1]: two rows claim the same requests: GET https://a/"), "{twice}");
    let trailing = refused("{}\n{}").unwrap_err();
    assert!(trailing.starts_with("line 2"), "{trailing}");
}
