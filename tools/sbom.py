#!/usr/bin/env python3
"""Writes the software bill of materials of an image: SPDX 2.3 and CycloneDX 1.6, both as JSON.

  sbom.py ROOT NAME VERSION    ROOT/usr/share/sbom/NAME.spdx.json and NAME.cdx.json, of the file system in ROOT

Run it on the host on which ROOT was created: the host's dpkg provides the Debian package of each shared object, and the object in
ROOT must match dpkg's checksum. A file of unknown origin ends the run with an error, and nothing is written.
Debian's copyright files cover whole source packages, so the licenses of a package are all licenses that its source names.
SOURCE_DATE_EPOCH is the time in the documents, for reproducible builds.
"""
import collections
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

TOP = pathlib.Path(__file__).resolve().parent.parent
DISTRO = "debian-12"
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"  # written by update-ca-certificates, in no package's list of files
OWN_FILES = {"etc/passwd", "etc/group", "etc/nsswitch.conf"}
OWN_LICENSE = "Apache-2.0"
# Debian's short names of licenses and the equivalent SPDX names. Other licenses keep Debian's name.
SPDX_IDS = {
    "0BSD": "0BSD", "Apache-2": "Apache-2.0", "Apache-2.0": "Apache-2.0", "BSD-2-clause": "BSD-2-Clause",
    "BSD-2-Clause": "BSD-2-Clause", "BSD-3-clause": "BSD-3-Clause", "BSD-3-Clause": "BSD-3-Clause", "BSL-1.0": "BSL-1.0",
    "CC0-1.0": "CC0-1.0", "Expat": "MIT", "ISC": "ISC", "MIT": "MIT", "PostgreSQL": "PostgreSQL", "X11": "X11",
    "Zlib": "Zlib", "zlib": "Zlib", "MPL-1.1": "MPL-1.1", "MPL-2.0": "MPL-2.0",
}


def fail(text):
    sys.exit(f"sbom: {text}")


def output(*command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout if ran.returncode == 0 else ""


def spdx_id(name):
    """SPDX's id of a Debian short name, or none."""
    if name in SPDX_IDS:
        return SPDX_IDS[name]
    found = re.fullmatch(r"(A?L?GPL)-([0-9]+)(?:\.([0-9]))?(\+?)", name)
    if not found:
        return None
    family, major, minor, later = found.groups()
    return f"{family}-{major}.{minor or 0}-{'or-later' if later else 'only'}"


class Package:
    """A Debian package as dpkg has it."""

    FORMAT = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${Maintainer}\t${Homepage}\n"

    @staticmethod
    def all_of(names):
        """Name -> package, of installed packages, asked at once."""
        listed = [line.split("\t") for line in output("dpkg-query", "-W", "-f", Package.FORMAT, *names).splitlines()]
        found = {fields[0]: Package(fields) for fields in listed}
        for name in names:
            if name.split(":")[0] not in found:
                fail(f"dpkg knows no installed package {name}")
        return found

    def __init__(self, fields):
        self.name, self.version, self.architecture, self.source, self.source_version, self.maintainer, self.homepage = fields
        self.ref = f"deb-{self.name}-{self.architecture}"
        source = f"&upstream={self.source}%40{self.source_version}" if self.source != self.name else ""
        self.purl = (f"pkg:deb/debian/{quoted(self.name)}@{quoted(self.version)}?arch={self.architecture}"
                     f"&distro={DISTRO}{source.replace('+', '%2B')}")
        self.licenses, self.license_comment = self.read_licenses()
        self.files = []
        self.needs = set()

    def read_licenses(self):
        path = pathlib.Path("/usr/share/doc") / self.name / "copyright"
        text = path.read_text(errors="replace") if path.exists() else ""
        if re.match(r"Format(-Specification)?:", text, re.IGNORECASE):
            names = re.findall(r"^License:[ \t]*(\S[^\n]*?)[ \t]*$", text, re.MULTILINE | re.IGNORECASE)
            return sorted(set(names)), "Every license that the copyright file of the source package names, for whatever file."
        common = sorted(set(re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)))
        points = f" It points to {', '.join(common)}." if common else ""
        return [], f"{path} is not in the machine-readable format.{points}"

    def md5sums(self):
        """Path -> md5, of what the package brought."""
        listed = {}
        for line in output("dpkg-query", "--control-show", f"{self.name}:{self.architecture}", "md5sums").splitlines():
            md5, path = line.split(None, 1)
            listed[path] = md5
        return listed


def quoted(text):
    return text.replace("+", "%2B").replace(":", "%3A")


def names_of(path):
    """What a package may call a file of this machine: as links lead to it, and as before /lib became a link or after."""
    real = os.path.realpath(path)
    return [real, real.removeprefix("/usr"), path, "/usr" + path]


def owners_of(paths):
    """Path -> name of its package, where one has it."""
    asked = sorted({name for path in paths for name in names_of(path)})
    answer = subprocess.run(["dpkg", "-S", *asked], capture_output=True, text=True, check=False).stdout  # fails where one is unknown
    known = {}
    for line in answer.splitlines():
        packages, name = line.rsplit(": ", 1)
        if not re.match(r"(local )?diversion ", packages):
            known[name] = packages.split(", ")[0]
    return {path: next((known[name] for name in names_of(path) if name in known), None) for path in paths}


class File:
    def __init__(self, root, path):
        self.path = path.relative_to(root).as_posix()
        content = path.read_bytes()
        self.sha1 = hashlib.sha1(content).hexdigest()
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.md5 = hashlib.md5(content).hexdigest()
        self.elf = content.startswith(b"\x7fELF")
        dynamic = output("readelf", "-dW", str(path)) if self.elf else ""
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)


class Image:
    """What lies in the file system, by origin."""

    def __init__(self, root, name, version):
        self.name, self.version = name, version
        self.programs, self.own, objects, self.packages = [], [], [], {}
        for path in sorted(one for one in root.rglob("*") if one.is_file() and not one.is_symlink()):
            file = File(root, path)
            if file.path.startswith("usr/share/sbom/"):
                continue
            if file.path.startswith("usr/bin/"):
                self.programs.append(file)
            elif file.path in OWN_FILES:
                self.own.append(file)
            else:
                objects.append(file)
        by_soname = self.sort(objects)
        for package in self.packages.values():
            for file in package.files:
                package.needs |= {by_soname[one].name for one in file.needed if one in by_soname} - {package.name}
        self.program_needs = {}
        for file in self.programs:
            missing = [one for one in file.needed if one not in by_soname]
            if missing:
                fail(f"{file.path} needs {', '.join(missing)}, which are not in {root}")
            self.program_needs[file.path] = {by_soname[one].name for one in file.needed}
        listed = re.search(r"^readonly PACKAGES=\(\n(.*?)\)", (TOP / "qm").read_text(), re.MULTILINE | re.DOTALL)
        build = [one for one in listed.group(1).split() if one.endswith("-dev") or one == "g++"]
        self.build = list(Package.all_of(build).values())

    def sort(self, objects):
        """Gives each file to its package; soname -> package."""
        owners = owners_of(["/" + file.path for file in objects])
        owners["/" + AUTHORITIES] = "ca-certificates"
        for path, owner in owners.items():
            if owner is None:
                fail(f"{path} is of no Debian package and not ours: its origin is unknown")
        packages = Package.all_of(sorted({owners["/" + file.path] for file in objects}))
        md5sums = {name: one.md5sums() for name, one in packages.items()}
        by_soname = {}
        for file in objects:
            package = packages[owners["/" + file.path].split(":")[0]]
            package.files.append(file)
            self.packages[package.name] = package
            by_soname[pathlib.PurePath(file.path).name] = package
            if file.path == AUTHORITIES:
                continue
            listed = md5sums[package.name]
            wanted = {listed[one[1:]] for one in names_of("/" + file.path) if one[1:] in listed}
            if file.md5 not in wanted:
                fail(f"/{file.path} is not the file that {package.name} {package.version} brought: md5 {file.md5}, "
                     f"dpkg has {' '.join(wanted) or 'none'}")
        return by_soname

    def digest(self):
        every = sorted(f"{one.sha256}  {one.path}" for one in self.programs + self.own
                       + [file for package in self.packages.values() for file in package.files])
        built = [f"{one.name} {one.version}" for one in self.build]
        return hashlib.sha256("\n".join([self.name, self.version, *every, *built]).encode()).hexdigest()


def created():
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def spdx(image):
    extracted = {}

    def license_of(names, package):
        if not names:
            return "NOASSERTION"
        ids = set()
        for name in names:
            known = spdx_id(name)
            if known is None:
                known = "LicenseRef-debian-" + re.sub(r"[^A-Za-z0-9.]+", "-", name.replace("+", "plus")).strip("-")
                extracted.setdefault(known, (name, package.name))
            ids.add(known)
        return " AND ".join(sorted(ids))

    def verification(files):
        return hashlib.sha1("".join(sorted(one.sha1 for one in files)).encode()).hexdigest()

    def with_files(entry, files):
        if not files:
            return entry | {"filesAnalyzed": False}
        return entry | {"filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": verification(files)},
                        "licenseInfoFromFiles": ["NOASSERTION"]}

    def of_debian(package):
        return with_files({
            "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]", "-", package.ref.replace("+", "plus")), "name": package.name,
            "versionInfo": package.version,
            "supplier": "Organization: Debian", "originator": "Organization: " + package.maintainer.replace("<", "(").replace(">", ")"),
            "downloadLocation": "NOASSERTION", "sourceInfo": f"built from {package.source} {package.source_version}",
            "licenseConcluded": "NOASSERTION", "licenseDeclared": license_of(package.licenses, package),
            "licenseComments": package.license_comment, "copyrightText": "NOASSERTION",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.purl}],
        } | ({"homepage": package.homepage} if package.homepage else {})
          | ({"primaryPackagePurpose": "LIBRARY"} if package.files else {}), package.files)

    def of_ours(ref, name, purpose, files):
        return with_files({
            "SPDXID": ref, "name": name, "versionInfo": image.version, "supplier": "Organization: Quartermaster",
            "downloadLocation": "NOASSERTION", "licenseConcluded": OWN_LICENSE, "licenseDeclared": OWN_LICENSE,
            "copyrightText": "NOASSERTION", "primaryPackagePurpose": purpose}, files)

    files, relations = [], []

    def relate(one, kind, other):
        relations.append({"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other})

    def add_files(owner, some):
        for one in some:
            ref = "SPDXRef-File-" + one.sha1[:12] + "-" + hashlib.sha1(one.path.encode()).hexdigest()[:8]
            files.append({"SPDXID": ref, "fileName": "./" + one.path, "fileTypes": ["BINARY" if one.elf else "TEXT"],
                          "checksums": [{"algorithm": "SHA1", "checksumValue": one.sha1},
                                        {"algorithm": "SHA256", "checksumValue": one.sha256}],
                          "licenseConcluded": "NOASSERTION", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"})
            relate(owner, "CONTAINS", ref)

    packages = [of_ours("SPDXRef-Image", image.name, "CONTAINER", image.own)]
    relate("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")
    add_files("SPDXRef-Image", image.own)
    refs = {}
    for package in sorted(image.packages.values(), key=lambda one: one.name):
        packages.append(of_debian(package))
        refs[package.name] = packages[-1]["SPDXID"]
        relate("SPDXRef-Image", "CONTAINS", refs[package.name])
        add_files(refs[package.name], package.files)
    for file in image.programs:
        name = pathlib.PurePath(file.path).name
        packages.append(of_ours("SPDXRef-Program-" + name, name, "APPLICATION", [file]))
        relate("SPDXRef-Image", "CONTAINS", "SPDXRef-Program-" + name)
        add_files("SPDXRef-Program-" + name, [file])
        for needed in sorted(image.program_needs[file.path]):
            relate("SPDXRef-Program-" + name, "DEPENDS_ON", refs[needed])
    for package in sorted(image.packages.values(), key=lambda one: one.name):
        for needed in sorted(package.needs):
            relate(refs[package.name], "DEPENDS_ON", refs[needed])
    for package in image.build:
        packages.append(of_debian(package))
        relate(packages[-1]["SPDXID"], "BUILD_DEPENDENCY_OF", "SPDXRef-Image")
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"{image.name}-{image.version}",
        "documentNamespace": f"https://quartermaster.dev/sbom/{image.name}-{image.version}-{image.digest()}",
        "creationInfo": {"created": created(), "creators": ["Tool: quartermaster-sbom"]},
        "packages": packages, "files": files, "relationships": relations,
        "hasExtractedLicensingInfos": [
            {"licenseId": ref, "name": name, "extractedText": f"See /usr/share/doc/{package}/copyright of the Debian package {package}."}
            for ref, (name, package) in sorted(extracted.items())]}


def cyclonedx(image):
    def licenses_of(names):
        known = {name: spdx_id(name) for name in names}
        ids = sorted({one for one in known.values() if one})
        return ([{"license": {"id": one, "acknowledgement": "declared"}} for one in ids]
                + [{"license": {"name": one, "acknowledgement": "declared"}} for one in names if not known[one]])

    def of_file(one, owner):
        return {"type": "file", "bom-ref": f"{owner}/{one.path}", "name": "/" + one.path,
                "hashes": [{"alg": "SHA-1", "content": one.sha1}, {"alg": "SHA-256", "content": one.sha256}]}

    def of_debian(package):
        entry = {"type": "library", "bom-ref": package.purl, "name": package.name, "version": package.version, "purl": package.purl,
                 "supplier": {"name": "Debian"}, "publisher": package.maintainer,
                 "licenses": licenses_of(package.licenses),
                 "properties": [{"name": "debian:source", "value": f"{package.source} {package.source_version}"},
                                {"name": "debian:licenses", "value": package.license_comment}]}
        if package.files:
            entry["components"] = [of_file(one, package.purl) for one in package.files]
        return {key: value for key, value in entry.items() if value}

    own = [{"license": {"id": OWN_LICENSE, "acknowledgement": "declared"}}]
    components = [of_file(one, image.name) for one in image.own]
    depends = collections.defaultdict(set)
    purls = {one.name: one.purl for one in image.packages.values()}
    for package in sorted(image.packages.values(), key=lambda one: one.name):
        components.append(of_debian(package))
        depends[image.name].add(package.purl)
        depends[package.purl] |= {purls[one] for one in package.needs}
    for file in image.programs:
        name = pathlib.PurePath(file.path).name
        components.append({"type": "application", "bom-ref": "program-" + name, "name": name, "version": image.version,
                           "licenses": own, "hashes": of_file(file, name)["hashes"],
                           "components": [of_file(file, "program-" + name)]})
        depends[image.name].add("program-" + name)
        depends["program-" + name] |= {purls[one] for one in image.program_needs[file.path]}
    for package in image.build:
        components.append(of_debian(package) | {"scope": "excluded"})
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, "https://quartermaster.dev/sbom/" + image.digest())),
        "metadata": {"timestamp": created(),
                     "tools": {"components": [{"type": "application", "name": "quartermaster-sbom"}]},
                     "component": {"type": "container", "bom-ref": image.name, "name": image.name, "version": image.version,
                                   "licenses": own}},
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": sorted(some)} for ref, some in sorted(depends.items())]}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip())
    root = pathlib.Path(sys.argv[1])
    image = Image(root, sys.argv[2], sys.argv[3])
    if not image.programs:
        fail(f"{root}/usr/bin has no program")
    folder = root / "usr/share/sbom"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, document in (("spdx", spdx(image)), ("cdx", cyclonedx(image))):
        (folder / f"{image.name}.{kind}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
