"""The facts of a C header: clang parses it, and a compiled program prints sizes and numbers."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

OURS = ("shma_", "SHMA_")
MACRO = re.compile(r"^#define (SHMA_\w+)(?: (.*))?$", re.M)
ATTRIBUTE = re.compile(r"^$|__attribute__|__declspec|\[\[")
# They change with every version, and say nothing about its ABI.
VERSION = re.compile(r"^SHMA_VERSION_")


class NotCompiled(Exception):
    """A compiler is missing or refuses the header."""


def run(*command, **options):
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
    except FileNotFoundError:
        raise NotCompiled(f"{command[0]} is missing: apt-get install clang gcc") from None
    except subprocess.CalledProcessError as failed:
        raise NotCompiled(f"{' '.join(map(str, command))}:\n{failed.stderr}") from None


def facts_of(header):
    """What a program that is compiled with the header relies on."""
    header = Path(header).resolve()
    tree = json.loads(
        run("clang", "-std=c11", "-Xclang", "-ast-dump=json", "-fsyntax-only", header)
    )
    declarations = tree["inner"]
    facts = {}
    facts |= types(declarations)
    plain = {f[1]: v[0] for f, v in facts.items() if f[0] == "TYPEDEF"}
    facts |= functions(declarations, plain)
    facts |= members(declarations, plain)
    facts |= macros(header, facts)
    facts |= {("CONSTANT", name): () for name in enumerators(declarations)}
    return measured(header, facts)


def named_ours(declarations, kind):
    for declaration in declarations:
        if declaration["kind"] == kind and declaration.get("name", "").startswith(OURS):
            yield declaration["name"], declaration


def types(declarations):
    """Type names that stand for other types, and structs without known members."""
    facts = {}
    for name, declaration in named_ours(declarations, "TypedefDecl"):
        type_ = declaration["type"]["qualType"]
        if type_ == f"struct {name}" and is_incomplete(declarations, name):
            facts["OPAQUE", name] = ()
        elif not type_.startswith(("struct ", "union ", "enum ")):
            facts["TYPEDEF", name] = (type_,)
    return facts


def is_incomplete(declarations, name):
    found = [
        declaration for tag, declaration in named_ours(declarations, "RecordDecl") if tag == name
    ]
    return bool(found) and not any(declaration.get("completeDefinition") for declaration in found)


def functions(declarations, plain):
    facts = {}
    for name, declaration in named_ours(declarations, "FunctionDecl"):
        if declaration.get("storageClass") == "static":
            continue
        result, _, rest = declaration["type"]["qualType"].partition("(")
        parameters = [
            parameter["type"]["qualType"]
            for parameter in declaration.get("inner", [])
            if parameter["kind"] == "ParmVarDecl"
        ]
        if rest.endswith("...)"):
            parameters.append("...")
        spelled = [in_plain_words(type_, plain) for type_ in [result.strip(), *parameters]]
        facts["FUNCTION", name] = tuple(spelled if parameters else [*spelled, "void"])
    return facts


def members(declarations, plain):
    """The members of each struct, of which the program then prints the offset."""
    structs = {node["id"]: node for node in declarations if node["kind"] == "RecordDecl"}
    facts = {}
    for name, declaration in named_ours(declarations, "TypedefDecl"):
        tag = declaration["inner"][0].get("ownedTagDecl", {}).get("id")
        if not structs.get(tag, {}).get("completeDefinition"):
            continue
        facts["STRUCT", name] = ()
        for member in structs[tag]["inner"]:
            if member["kind"] == "FieldDecl":
                type_ = in_plain_words(member["type"]["qualType"], plain)
                facts["MEMBER", name, member["name"]] = (type_,)
    return facts


def in_plain_words(type_, plain):
    """The type without names that the header gives to other types: a new name changes no ABI."""
    return re.sub(r"\w+", lambda word: plain.get(word[0], word[0]), type_)


def enumerators(declarations):
    for declaration in declarations:
        if declaration["kind"] == "EnumDecl":
            yield from (name for name, _ in named_ours(declaration["inner"], "EnumConstantDecl"))


def macros(header, facts):
    made = {}
    for name, text in MACRO.findall(header.read_text()):
        if VERSION.match(name) or ATTRIBUTE.search(text):
            continue
        if text.startswith("{"):
            struct = name.removesuffix("_INIT").lower()
            if ("STRUCT", struct) not in facts:
                raise NotCompiled(f"{name} initializes no struct of the header")
            made["INITIALIZER", name] = (struct,)
        else:
            made["TEXT" if text.startswith('"') else "CONSTANT", name] = ()
    return made


QUESTIONS = {
    "CONSTANT": 'printf("%lld", (long long)({0}));',
    "STRUCT": 'printf("%zu, %zu", sizeof({0}), _Alignof({0}));',
    "MEMBER": 'printf("%zu", offsetof({0}, {1}));',
}


def measured(header, facts):
    """The facts with the numbers that a compiled program prints."""
    asked = [fact for fact in facts if fact[0] in QUESTIONS]
    lines = [QUESTIONS[kind].format(*about) + ' puts("");' for kind, *about in asked]
    program = "\n".join(
        ["#include <stddef.h>", "#include <stdio.h>", f'#include "{header}"', "int main(void) {"]
        + [*lines, "return 0; }"]
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "numbers.c")
        executable = Path(folder, "numbers")
        source.write_text(program)
        # No function is called, so none is needed.
        run("cc", "-std=c11", source, "-o", executable)
        answers = run(executable).splitlines()
    for fact, answer in zip(asked, answers, strict=True):
        facts[fact] = (*answer.replace(str(-(2**63)), "INT64_MIN").split(", "), *facts[fact])
    return facts
