//! Definitions and machines: the description allows exactly what the server accepts.

use std::path::Path;
use std::process::Stdio;

use hyper::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::support::{Client, Program, within};

const DEFINITION: &str = "DefinitionRequest";
const MACHINE: &str = "MachineRequest";

/// A document and the schema it is written by.
type Written = (&'static str, Value);

/// Merges fields into an object; `null` removes one.
fn with(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            base.as_object_mut().unwrap().remove(name);
        } else {
            base[name] = value.clone();
        }
    }
    base
}

fn definition(changes: &Value) -> Value {
    let steps = json!([{ "id": "a", "action": { "worker": { "queue": "q" } } }]);
    with(json!({ "name": "d", "steps": steps }), changes)
}

/// A definition with this in a step that calls a service.
fn called(changes: &Value) -> Value {
    second_step(json!({ "id": "b", "action": { "http": { "url": "http://pay/b" } } }), changes)
}

/// The same for a step of a worker.
fn worked(changes: &Value) -> Value {
    second_step(json!({ "id": "b", "action": { "worker": { "queue": "q" } } }), changes)
}

fn second_step(step: Value, changes: &Value) -> Value {
    let first = json!({ "id": "a", "action": { "worker": { "queue": "q" } } });
    definition(&json!({ "steps": [first, with(step, changes)] }))
}

fn calling(call: &Value) -> Value {
    called(&json!({ "action": { "http": with(json!({ "url": "http://pay/b" }), call) } }))
}

fn undone(undo: &Value) -> Value {
    called(&json!({ "compensate": undo }))
}

fn retried(retry: &Value) -> Value {
    called(&json!({ "retry": retry }))
}

fn undone_again(retry: &Value) -> Value {
    undone(&json!({ "http": { "url": "http://pay/u" }, "retry": retry }))
}

fn machine(changes: &Value) -> Value {
    let base = json!({
        "name": "m", "initial": "a", "states": ["a", "b", "c"], "terminal": ["c"],
        "edges": [["a", "b"], ["b", "c"], ["a", "c"]], "can_fail": ["a", "b"], "error_kinds": ["lost"],
        "actions": { "a": { "worker": { "queue": "q" }, "next": { "ok": "b", "lost": "c" } } },
    });
    with(base, changes)
}

/// A machine with this action in its first state.
fn acting(action: &Value) -> Value {
    machine(&json!({ "actions": { "a": action } }))
}

fn documents(definitions: Vec<Value>, machines: Vec<Value>) -> Vec<Written> {
    let definitions = definitions.into_iter().map(|document| (DEFINITION, document));
    definitions.chain(machines.into_iter().map(|document| (MACHINE, document))).collect()
}

/// Definitions that are accepted.
fn good_definitions() -> Vec<Value> {
    let mut definitions = vec![
        definition(&json!({ "name": "Größe-日本_1.2" })),
        definition(&json!({ "name": "x".repeat(128), "title": "t".repeat(512) })),
        definition(&json!({ "metadata": [1, { "any": false }], "continue_on_compensation_failure": true })),
        definition(&json!({ "compensation_concurrency": u32::MAX })),
        definition(&json!({ "compensation_concurrency": 2.0 })),
        called(&json!({ "concurrency": u32::MAX, "timeout": "1h 30m", "depends_on": [] })),
        worked(&json!({ "queue_timeout": "5m", "depends_on": ["a"], "retry": 0 })),
        undone(&json!({ "http": { "url": "http://pay/u" }, "timeout": "5s" })),
        undone(&json!({ "worker": { "queue": "größe" }, "queue_timeout": "5s", "retry": 3 })),
        retried(&json!(1000)),
        retried(&json!({})),
        retried(&json!({ "count": 2, "delay": "0s", "within": "1h", "jitter": 100 })),
        retried(&json!({ "backoff": "exponential", "delay": "1s", "max_delay": "5s", "jitter": 20 })),
        retried(&json!({ "delays": ["1s", "0s"] })),
        retried(&json!({ "backoff": "list", "delays": ["1s"], "count": 4 })),
        retried(&json!({ "delays": [], "count": 0 })),
        retried(&json!({ "delays": [] })),
        retried(&json!({ "delays": vec!["1s"; 1000] })),
        retried(&json!({ "delays": vec!["1s"; 1001], "count": 1000 })),
        undone_again(&json!({ "max_delay": "5s" })),
        undone_again(&json!({ "backoff": "fixed", "delay": "5s" })),
        calling(&json!({ "method": "DELETE", "headers": {} })),
        calling(&json!({ "headers": { "Authorization": "Bearer …\t\"x\"", "x-b": "" } })),
    ];
    for timeout in
        ["1ns", "5 µs", "1.5s", "1m30s", "2hrs 5mins", "0.25h", "366days", "52w", "12months", "1y", "0s 1ms "]
    {
        definitions.push(called(&json!({ "timeout": timeout })));
    }
    for url in [
        "HTTPS://1password.example/a%20b?x={y}|ü",
        "http://[::1]:65535/",
        "http://[1:2::]",
        "http://127.0.0.1",
        "http://a_b.c.:80?q",
        "http://xn--bcher-kva.example",
    ] {
        definitions.push(calling(&json!({ "url": url })));
    }
    definitions
}

/// Machines that are accepted.
fn good_machines() -> Vec<Value> {
    vec![
        machine(&json!({})),
        machine(&json!({ "subject": "a.ö", "title": "t", "stuck_after": { "a": "1day" } })),
        machine(&json!({ "subject": "backstitched" })),
        machine(&json!({ "states": ["a", "b", "c", "failed"] })),
        machine(&json!({ "error_kinds": ["lost", "o", "okay", "k.ok", "internal"] })),
        machine(&json!({
            "states": ["a", "b", "c", "wäit"], "pause": { "wäit": "b" }, "pause_expires": { "wäit": "30days" },
            "edges": [["a", "b"], ["b", "c"], ["a", "c"], ["b", "wäit"]],
        })),
        acting(&json!({ "next": { "ok": "b" } })),
        acting(
            &json!({ "http": { "url": "http://a/b" }, "next": { "ok": "b" }, "timeout": "1s", "retry": { "within": "5s" } }),
        ),
        acting(
            &json!({ "worker": { "queue": "q" }, "next": { "ok": "b" }, "queue_timeout": "1s", "retry": { "within": "5s" } }),
        ),
    ]
}

/// Definitions that are refused for what a schema can say.
fn bad_definitions() -> Vec<Value> {
    let both = json!({ "http": { "url": "http://pay/u" }, "worker": { "queue": "q" } });
    vec![
        json!([]),
        definition(&json!({ "steps": [] })),
        definition(
            &json!({ "steps": vec![json!({ "id": "a", "action": { "worker": { "queue": "q" } } }); 501] }),
        ),
        definition(&json!({ "more": 1 })),
        definition(&json!({ "title": "t".repeat(513) })),
        definition(&json!({ "compensation_concurrency": 0 })),
        definition(&json!({ "compensation_concurrency": 4_294_967_296_u64 })),
        definition(&json!({ "compensation_concurrency": 1.5 })),
        undone(&json!({})),
        undone(&json!({ "timeout": "5s" })),
        undone(&both),
        undone(&json!({ "http": { "url": "http://pay/u" }, "queue_timeout": "5s" })),
        undone(&json!({ "worker": { "queue": "q" }, "retry": { "within": "5s" } })),
        undone(&json!({ "worker": { "queue": "q" }, "concurrency": 1 })),
        undone_again(&json!({ "backoff": "fixed", "max_delay": "5s" })),
        called(&json!({ "action": {} })),
        called(&json!({ "action": both })),
        called(&json!({ "action": { "worker": { "queue": "q", "more": 1 } } })),
        called(&json!({ "queue_timeout": "5s" })),
        called(&json!({ "more": 1 })),
        called(&json!({ "concurrency": 0 })),
        called(&json!({ "concurrency": 4_294_967_296_u64 })),
        called(&json!({ "title": 1 })),
        worked(&json!({ "concurrency": 1 })),
        worked(&json!({ "retry": { "within": "5s" } })),
        worked(&json!({ "depends_on": ["a", "a"] })),
        retried(&json!(1001)),
        retried(&json!(-1)),
        retried(&json!({ "count": 1001 })),
        retried(&json!({ "more": 1 })),
        retried(&json!({ "max_delay": "5s" })),
        retried(&json!({ "backoff": "random" })),
        retried(&json!({ "backoff": "fixed", "delays": ["1s"] })),
        retried(&json!({ "backoff": "list" })),
        retried(&json!({ "delays": [], "count": 1 })),
        retried(&json!({ "delays": ["1s"], "delay": "1s" })),
        retried(&json!({ "delays": vec!["1s"; 1001] })),
        retried(&json!({ "jitter": 101 })),
        retried(&json!({ "within": "0s" })),
        calling(&json!({ "method": "HEAD" })),
        calling(&json!({ "more": 1 })),
        calling(&json!({ "headers": { "HOST": "x" } })),
        calling(&json!({ "headers": { "Idempotency-Key": "x" } })),
        calling(&json!({ "headers": { "X-BackStitch-A": "x" } })),
        calling(&json!({ "headers": { "proxy-a": "x" } })),
        calling(&json!({ "headers": { "a b": "x" } })),
        calling(&json!({ "headers": { "": "x" } })),
        calling(&json!({ "headers": { "a": "x\ny" } })),
        calling(&json!({ "headers": { "a": 1 } })),
        calling(
            &json!({ "headers": (0..1001).map(|nth| (format!("a{nth}"), json!(""))).collect::<serde_json::Map<_, _>>() }),
        ),
    ]
}

/// Definitions with a text that is refused.
fn bad_texts() -> Vec<Value> {
    let mut definitions = Vec::new();
    for name in ["", ".", "..", "a b", "a/b", "a\n", &"x".repeat(129)] {
        definitions.push(definition(&json!({ "name": name })));
        definitions.push(called(&json!({ "id": name })));
        definitions.push(called(&json!({ "action": { "worker": { "queue": name } } })));
    }
    for timeout in ["", "5", "s", "0s", "0h 0m", "367days", "13months", "2y", "soon", "-5s", "5.s", "1.5ns"] {
        definitions.push(called(&json!({ "timeout": timeout })));
    }
    for url in [
        "",
        "a",
        "ftp://a",
        "http://",
        "http://a/ b",
        "http://a/\u{3000}",
        "http://a/#x",
        "http://user@a",
        "http://a:0",
        "http://a:65536",
        "http://a.1",
        "http://1.2.3.256",
        "http://[1:2]",
        &format!("http://{}", "a".repeat(64)),
        &format!("http://{}a", "a.".repeat(127)),
    ] {
        definitions.push(calling(&json!({ "url": url })));
    }
    definitions
}

/// Machines that are refused for what a schema can say.
fn bad_machines() -> Vec<Value> {
    let mut machines = vec![
        machine(&json!({ "more": 1 })),
        machine(&json!({ "initial": null })),
        machine(&json!({ "title": "t".repeat(513) })),
        machine(&json!({ "states": ["a", "b", "c", "a"] })),
        machine(&json!({ "states": [] })),
        machine(&json!({ "terminal": ["c", "c"] })),
        machine(&json!({ "can_fail": ["a", "b", "a"] })),
        machine(&json!({ "error_kinds": ["lost", "lost"] })),
        machine(&json!({ "error_kinds": ["lost", "ok"] })),
        machine(&json!({ "error_kinds": ["lost", ""] })),
        machine(&json!({ "error_kinds": ["lost", ".."] })),
        machine(&json!({ "error_kinds": (0..101).map(|nth| format!("k{nth}")).collect::<Vec<_>>() })),
        machine(&json!({ "edges": [["a", "b"], ["b", "c"], ["a", "c"], ["a", "b"]] })),
        machine(&json!({ "edges": [["a", "b"], ["b", "c"], ["a", "c"], ["a", "a"]] })),
        machine(&json!({ "edges": [["a", "b", "c"], ["b", "c"], ["a", "c"]] })),
        machine(&json!({ "edges": [["a", "b"], ["b", "c"], ["a"]] })),
        machine(&json!({ "name": "ö" })),
        machine(&json!({ "name": ".." })),
        machine(&json!({ "stuck_after": { "a": "0s" } })),
        acting(&json!({ "worker": { "queue": "q" }, "next": {} })),
        acting(&json!({ "worker": { "queue": "q" } })),
        acting(&json!({ "worker": { "queue": "q" }, "next": { "ok": "b" }, "more": 1 })),
        acting(&json!({ "http": { "url": "http://a/b" }, "next": { "ok": "b" }, "queue_timeout": "5s" })),
        acting(&json!({ "next": { "ok": "b" }, "timeout": "5s" })),
        acting(&json!({ "next": { "ok": "b" }, "retry": 1 })),
        acting(&json!({ "next": { "ok": "b", "lost": "c" } })),
        acting(
            &json!({ "http": { "url": "http://a/b" }, "worker": { "queue": "q" }, "next": { "ok": "b" } }),
        ),
    ];
    for state in ["", "d.e", "d e", &"x".repeat(129)] {
        machines.push(machine(&json!({ "states": ["a", "b", "c", state] })));
    }
    for subject in ["", "a..b", ".a", "a.", "a b", "backstitch", "backstitch.a", "sites.provisioning.x"] {
        machines.push(machine(&json!({ "subject": subject })));
    }
    machines
}

/// Whether the description allows each document.
async fn allowed(client: &Client, documents: &[Written]) -> Vec<bool> {
    let folder = tempfile::tempdir().unwrap();
    let description = folder.path().join("openapi.json");
    std::fs::write(&description, &client.get("/openapi.json").await.body).unwrap();
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fuzz-venv/bin/python");
    let mut validator = Command::new(python);
    validator.args(["-c", include_str!("valid.py")]).arg(&description).kill_on_drop(true);
    let mut validator = validator.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = validator.stdin.take().unwrap();
    input.write_all(json!(documents).to_string().as_bytes()).await.unwrap();
    drop(input);
    let output = within(validator.wait_with_output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the server says to a document: nothing where it accepts it.
async fn refusal(client: &Client, (schema, document): &Written) -> Option<String> {
    let route = if *schema == DEFINITION { "definitions" } else { "lifecycles" };
    let (name, format, body) = match document {
        Value::String(yaml) => {
            let name = yaml.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
            (name, "application/yaml", yaml.clone())
        }
        json => (json["name"].as_str().unwrap_or("d"), "application/json", json.to_string()),
    };
    // No name is the path of another route, and none is normalised away.
    let name: String = if name.is_empty() { "x".to_owned() } else { escaped(name) };
    let answer =
        client.send(Method::PUT, &format!("/v1/{route}/{name}"), &[("content-type", format)], body).await;
    assert!([200, 201, 404, 422].contains(&answer.status), "{document}: {answer:?}");
    (answer.status >= 300).then(|| String::from_utf8_lossy(&answer.body).into_owned())
}

fn escaped(name: &str) -> String {
    name.bytes().fold(String::new(), |name, byte| format!("{name}%{byte:02X}"))
}

async fn server(folder: &Path) -> Program {
    Program::serve(&format!("sqlite:{}", folder.join("sagas.db").display()), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn description_allows_the_declarations_that_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let mut differences = Vec::new();
    let bad_definitions = [bad_definitions(), bad_texts()].concat();
    for (documents, is_good) in [
        (documents(good_definitions(), good_machines()), true),
        (documents(bad_definitions, bad_machines()), false),
    ] {
        let allowed = allowed(&server.client, &documents).await;
        for (document, is_allowed) in documents.iter().zip(allowed) {
            let refusal = refusal(&server.client, document).await;
            if (refusal.is_none(), is_allowed) != (is_good, is_good) {
                let document = document.1.to_string().chars().take(300).collect::<String>();
                differences
                    .push(format!("good {is_good}, allowed {is_allowed}, refused {refusal:?}: {document}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn description_requires_the_count_of_a_service_retry() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let endpoint =
        |retry: &Value| json!({ "url": "http://a/do", "rollback_url": "http://a/undo", "retry": retry });
    for (retry, is_good) in [
        (json!(2), true),
        (json!({ "count": 2, "backoff": "fixed", "delay": "1s" }), true),
        (json!({ "count": 0 }), true),
        (json!({ "delays": ["1s"] }), true),
        (json!({ "backoff": "fixed", "delay": "1s" }), false),
        (json!({ "delay": "1s", "max_delay": "5s" }), false),
        (json!({}), false),
    ] {
        let endpoint = endpoint(&retry);
        let change =
            json!({ "endpoints": { "payment": endpoint, "inventory": endpoint, "logistics": endpoint } });
        let is_allowed = allowed(&server.client, &[("ServicesChange", change.clone())]).await[0];
        let json = [("content-type", "application/json")];
        let path = "/v1/admin/config/services";
        let answer = server.client.send(Method::PUT, path, &json, change.to_string()).await;
        assert_eq!((answer.status < 300, is_allowed), (is_good, is_good), "{retry}: {answer:?}");
    }
}

/// The definitions and machines that the pages show.
fn documented() -> Vec<Written> {
    let mut documents = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs")];
    let mut pages = vec![root.join("README.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    for page in pages {
        let text = std::fs::read_to_string(page).unwrap();
        for (begin, end) in [("```yaml\n", "```"), ("<<'YAML'\n", "\nYAML")] {
            let blocks = text.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
            for block in blocks.map(str::to_owned) {
                if block.contains("\nsteps:") {
                    documents.push((DEFINITION, Value::from(block)));
                } else if block.contains("\nstates:") {
                    documents.push((MACHINE, Value::from(block)));
                } else if block.starts_with("actions:") {
                    let states =
                        "states: [packed, sent, held, delivered]\ninitial: packed\nterminal: [delivered]\n";
                    let edges = "edges: [[packed, sent], [sent, delivered], [sent, held], [held, sent]]\n";
                    let errors = "can_fail: [sent]\nerror_kinds: [no_recipient]\n";
                    documents.push((
                        MACHINE,
                        Value::from(format!("name: fragment\n{states}{edges}{errors}{block}")),
                    ));
                } else {
                    panic!("neither a definition nor a machine:\n{block}");
                }
            }
        }
    }
    documents
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_declarations_fit_the_description() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let documents = documented();
    assert!(documents.len() >= 6, "{documents:?}");
    let allowed = allowed(&server.client, &documents).await;
    for (document, is_allowed) in documents.iter().zip(allowed) {
        let refusal = refusal(&server.client, document).await;
        assert_eq!((is_allowed, refusal), (true, None), "{}", document.1);
    }
}
