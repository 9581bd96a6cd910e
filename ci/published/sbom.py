"""Writes target/sbom/PACKAGE.cdx.json: the crates that are compiled into a package, in CycloneDX.

    . ci/env; python ci/published/sbom.py

`ci/install --sbom` installs those of the library and the command. The wheel has maturin's. The same
sources give the same bytes.
"""

import json
import subprocess
import sys
import tomllib
import uuid

from crates import PACKAGES, ROOT, compiled_in
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

MADE = ROOT / "target/sbom"


def metadata():
    command = ("cargo", "metadata", "--format-version", "1", "--locked")
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def checksums():
    """What the registry says of each crate: SHA-256, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text("utf-8"))
    found = lock["package"]
    return {(one["name"], one["version"]): one.get("checksum") for one in found}


def component(package, checksum):
    name, version = package["name"], package["version"]
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else []
    licence = package["license"].replace("/", " OR ")  # as crates wrote it before SPDX
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        purl=PackageURL("cargo", None, name, version),
        bom_ref=f"{name} {version}",
        licenses=[LicenseExpression(licence)],
        hashes=hashes,
    )


def bom_of(name, packages, edges, sums):
    (own,) = (identity for identity, package in packages.items() if package["name"] == name)
    crates = compiled_in(name)
    inside, ahead = {}, [own]
    while ahead:
        identity = ahead.pop()
        package = packages[identity]
        key = package["name"], package["version"]
        is_ours = package["source"] is None
        if identity not in inside and (is_ours or key in crates):
            inside[identity] = component(package, sums.get(key))
            ahead += edges[identity]
    root = inside[own]
    bom = Bom(components=[one for one in inside.values() if one is not root])
    bom.metadata.component = root
    bom.metadata.timestamp = None
    bom.metadata.tools = []
    for identity, one in inside.items():
        ends = [inside[end] for end in edges[identity] if end in inside]
        bom.register_dependency(one, ends)
    return bom


def written(bom):
    """The text, with a serial number that follows from the rest."""
    bom.serial_number = uuid.UUID(int=0)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, text)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def main():
    found = metadata()
    packages = {package["id"]: package for package in found["packages"]}
    edges = {node["id"]: node["dependencies"] for node in found["resolve"]["nodes"]}
    sums = checksums()
    MADE.mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        text = written(bom_of(name, packages, edges, sums))
        wrong = JsonStrictValidator(JsonV1Dot6(Bom()).schema_version).validate_str(text)
        if wrong:
            sys.exit(f"{name}: {wrong}")
        (MADE / f"{name}.cdx.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
