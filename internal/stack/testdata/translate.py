"""Prints the resources that SAM makes of a template, as JSON: once for each parameter.

Arguments: the template, then parameters as NAME=value. What AWS does with the template
before CloudFormation reads it is the same program.
"""

import copy
import json
import os
import sys
from types import SimpleNamespace

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")
with open(sys.argv[1], encoding="utf-8") as file:
    template = yaml_parse(file.read())
for function in template["Resources"].values():
    if function["Type"] == "AWS::Serverless::Function":
        function["Properties"]["CodeUri"] = "s3://bucket/key"
    if function["Type"] == "AWS::Serverless::StateMachine":
        function["Properties"]["DefinitionUri"] = "s3://bucket/key"
template["Globals"]["Function"].pop("CodeUri")
made = []
for argument in sys.argv[2:]:
    name, value = argument.split("=", 1)
    made.append(transform(copy.deepcopy(template), {name: value}, SimpleNamespace(load=dict))["Resources"])
json.dump(made, sys.stdout)
