"""Prints the resources that SAM makes of a template, as JSON.

Arguments: the template, then parameters as NAME=value. What AWS does with the template
before CloudFormation reads it is the same program.
"""

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
parameters = dict(argument.split("=", 1) for argument in sys.argv[2:])
json.dump(transform(template, parameters, SimpleNamespace(load=dict))["Resources"], sys.stdout)
