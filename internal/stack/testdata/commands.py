"""Checks commands of `aws` and `sam` without calling AWS.

Reads a JSON list of {"at": place, "args": [program, ...]} and prints a JSON list of
{"at": place, "fault": sentence}. What an `aws` command may say comes from botocore's
service models, of which the AWS CLI makes its own commands; what a `sam` command may
say, from the SAM CLI that is installed here.
"""

import json
import sys

import botocore.exceptions
import botocore.loaders
import botocore.session
import click
import dateutil.parser
import jmespath
from botocore import xform_name
from samcli.cli.main import cli

# Options of the AWS CLI itself: name, and whether a value follows.
GLOBAL = {
    "region": True, "output": True, "query": True, "profile": True, "no-cli-pager": False, "cli-binary-format": True,
}
SESSION = botocore.session.Session(profile=None)


class Fault(Exception):
    """A command that would not do what its page says."""


def dashed(name):
    return xform_name(name, "-")


def options(args):
    """Splits arguments into options, each with the values that follow it, and what stands alone."""
    given, alone, name = {}, [], None
    for arg in args:
        if arg.startswith("--"):
            name, _, value = arg[2:].partition("=")
            if name in given:
                raise Fault(f"--{name} stands twice")
            given[name] = [value] if value else []
        elif name is None or GLOBAL.get(name) is False:
            alone.append(arg)
        else:
            given[name].append(arg)
    return given, alone


def check_value(name, shape, values):
    """Looks into values as far as the model tells what they may be."""
    if shape.type_name == "boolean":
        if values:
            raise Fault(f"--{name} takes no value, but {values} follows")
        return
    if not values:
        raise Fault(f"--{name} needs a value")
    if shape.type_name != "list" and len(values) > 1:
        raise Fault(f"--{name} takes one value, not {values}")
    inner = shape.member if shape.type_name == "list" else shape
    for value in values:
        check_one(name, inner, value)


def check_one(name, shape, value):
    if shape.type_name == "structure":
        check_structure(name, shape, value)
    elif shape.type_name == "timestamp":
        dateutil.parser.isoparse(value)
    elif shape.type_name in ("integer", "long"):
        int(value)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        raise Fault(f"--{name}: {value} is none of {', '.join(shape.enum)}")


def check_structure(name, shape, value):
    """Shorthand: Key=value,Key=value. Keys that are required must be there."""
    if value.startswith(("{", "[", "file://")):
        keys = list(json.loads(value)) if value.startswith("{") else []
    else:
        keys = [part.partition("=")[0] for part in value.split(",")]
    for key in keys:
        if key not in shape.members:
            raise Fault(f"--{name} has no {key}, only {', '.join(shape.members)}")
    for key in set(shape.required_members) - set(keys):
        raise Fault(f"--{name} needs {key}")


def find_operation(service, words):
    """Returns the model of the operation that the first words name, and how many words that took."""
    try:
        model = SESSION.get_service_model(service)
    except botocore.exceptions.UnknownServiceError as err:
        raise Fault(f"no service {service}") from err
    by_name = {dashed(operation): operation for operation in model.operation_names}
    if words[:1] == ["wait"]:
        waiters = SESSION.get_component("data_loader").load_service_model(service, "waiters-2")["waiters"]
        named = {dashed(waiter): waiters[waiter]["operation"] for waiter in waiters}
        if len(words) < 2 or words[1] not in named:
            raise Fault(f"{service} cannot wait for {words[1:2]}, only for {', '.join(sorted(named))}")
        return model.operation_model(named[words[1]]), 2
    if not words or words[0] not in by_name:
        raise Fault(f"{service} has no operation {words[:1]}")
    return model.operation_model(by_name[words[0]]), 1


def check_query(operation, query):
    jmespath.compile(query)
    first = query.replace("[", ".").split(".")[0].strip()
    if operation.output_shape is None or first not in operation.output_shape.members:
        raise Fault(f"--query: {operation.name} answers no {first}")


def check_aws(args):
    if not args:
        raise Fault("aws does what?")
    operation, taken = find_operation(args[0], args[1:])
    rest = args[1 + taken:]
    # The one argument without a name that the CLI adds: where an answer is written to.
    if operation.name == "Invoke" and (not rest or rest.pop().startswith("--")):
        raise Fault("invoke needs a file for the answer behind its options")
    given, alone = options(rest)
    members = operation.input_shape.members if operation.input_shape else {}
    allowed = {dashed(member): member for member in members}
    seen = set()
    for name, values in given.items():
        if name in GLOBAL:
            if GLOBAL[name] and len(values) != 1:
                raise Fault(f"--{name} needs one value")
            continue
        plain = name[3:] if name.startswith("no-") and name[3:] in allowed else name
        if plain not in allowed:
            raise Fault(f"{dashed(operation.name)} has no --{name}, only --{', --'.join(sorted(allowed))}")
        check_value(name, members[allowed[plain]], values)
        seen.add(allowed[plain])
    if missing := set(operation.input_shape.required_members if operation.input_shape else []) - seen:
        raise Fault(f"{dashed(operation.name)} needs --{', --'.join(map(dashed, sorted(missing)))}")
    if alone:
        raise Fault(f"{dashed(operation.name)} cannot be told {alone}")
    for query in given.get("query", []):
        check_query(operation, query)


def check_sam(args):
    # SAM loads its commands only for a context that has an obj.
    command, context = cli, click.Context(cli, info_name="sam", obj=True)
    args = list(args)
    while isinstance(command, click.Group):
        name = args.pop(0) if args else ""
        inner = command.get_command(context, name)
        if inner is None:
            raise Fault(f"sam has no command {name!r} there")
        command, context = inner, click.Context(inner, info_name=name, parent=context)
    try:
        values, rest, order = command.make_parser(context).parse_args(args)
        for parameter in order:
            if parameter.name in values:
                parameter.type_cast_value(context, values[parameter.name])
    except click.UsageError as err:
        raise Fault(f"sam {context.info_name}: {err.format_message()}") from err
    if rest:
        raise Fault(f"sam {context.info_name} cannot be told {rest}")


def main():
    faults = []
    for command in json.load(sys.stdin):
        program, *args = command["args"]
        try:
            {"aws": check_aws, "sam": check_sam}[program](args)
        except (Fault, ValueError, jmespath.exceptions.JMESPathError) as err:
            faults.append({"at": command["at"], "fault": str(err)})
    json.dump(faults, sys.stdout)


if __name__ == "__main__":
    main()
