"""Says of each document of standard input whether a schema of the description allows it. Text is YAML."""

import json
import sys

import jsonschema_rs
import yaml

with open(sys.argv[1]) as file:
    components = json.load(file)["components"]


def validator(name):
    schema = {"$ref": f"#/components/schemas/{name}", "components": components}
    return jsonschema_rs.Draft202012Validator(schema)


validators = {}
verdicts = []
for name, document in json.load(sys.stdin):
    if name not in validators:
        validators[name] = validator(name)
    if isinstance(document, str):
        document = yaml.safe_load(document)
    verdicts.append(validators[name].is_valid(document))
print(json.dumps(verdicts))
