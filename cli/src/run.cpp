#include "qm/cli/run.hpp"

#include "client.hpp"
#include "commands.hpp"
#include "options.hpp"
#include "table.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace qm::cli {
namespace {

namespace fs = std::filesystem;

/// The limit of the services; a larger file is refused before it is sent.
constexpr std::size_t kLargestManifest = std::size_t{1} << 20;

int code_of(const Error& error) {
  switch (error.code) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kUnreachable;
    case Code::kNotFound:
      return kNotFound;
    default:
      return kFailed;
  }
}

int complain(std::ostream& err, const Error& error, int code) {
  err << "qmctl: " << error.message << '\n';
  if (!error.field.empty()) err << "  field:  " << printable(error.field) << '\n';
  if (!error.remedy.empty()) err << "  remedy: " << printable(error.remedy) << '\n';
  return code;
}

Error unreadable(const std::string& file, const std::string& why) {
  return {Code::kInvalid, fmt::format("{} {}", file, why), "--file",
          "name a file or a folder of YAML, or - for the input"};
}

bool is_folder(const std::string& file) {
  std::error_code ignored;
  return file != "-" && fs::is_directory(file, ignored);
}

Result<Manifest> read_one(const std::string& file, std::istream& in) {
  const bool piped = file == "-";
  std::ifstream opened;
  if (!piped) opened.open(file);
  std::istream& from = piped ? in : opened;
  if (!from) return fail(unreadable(file, "cannot be read"));
  std::string text(kLargestManifest + 1, '\0');
  from.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (from.bad()) return fail(unreadable(file, "cannot be read"));
  text.resize(static_cast<std::size_t>(from.gcount()));
  if (text.size() > kLargestManifest) return fail(unreadable(file, "is larger than 1 MiB"));
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(unreadable(piped ? "the input" : file, "is empty"));
  return Manifest{piped ? "stdin" : file, std::move(text)};
}

Result<std::vector<Manifest>> read_manifests(const std::vector<std::string>& files, std::istream& in) {
  std::vector<Manifest> out;
  for (const auto& file : files) {
    std::vector<std::string> paths{file};
    if (is_folder(file)) {
      paths.clear();
      std::error_code ignored;
      for (const auto& entry : fs::recursive_directory_iterator(file, ignored)) {
        const auto kind = entry.path().extension();
        if (kind == ".yaml" || kind == ".yml" || kind == ".json") paths.push_back(entry.path().string());
      }
      std::ranges::sort(paths);
      if (paths.empty()) return fail(unreadable(file, "holds no YAML"));
    }
    for (const auto& path : paths) {
      QM_ASSIGN(auto manifest, read_one(path, in));
      out.push_back(std::move(manifest));
    }
  }
  return out;
}

std::vector<std::string> files_of(const Verb& verb) {
  if (const auto* apply = std::get_if<ApplyVerb>(&verb)) return apply->files;
  if (const auto* recommend = std::get_if<RecommendVerb>(&verb); recommend != nullptr && !recommend->table.empty())
    return {recommend->table};
  if (const auto* layouts = std::get_if<LayoutsVerb>(&verb)) return layouts->files;
  if (const auto* what_if = std::get_if<WhatIfVerb>(&verb)) return what_if->files;
  if (const auto* admit = std::get_if<AdmitVerb>(&verb)) return admit->files;
  if (const auto* capacity = std::get_if<CapacityVerb>(&verb)) return capacity->files;
  if (const auto* history = std::get_if<HistoryVerb>(&verb)) return history->files;
  if (const auto* pool = std::get_if<PoolVerb>(&verb)) return pool->files;
  if (const auto* scale = std::get_if<ScaleFilesVerb>(&verb)) return scale->files;
  if (const auto* lint = std::get_if<LintVerb>(&verb)) return lint->files;
  if (const auto* import = std::get_if<ImportVerb>(&verb)) return import->files;
  if (const auto* preflight = std::get_if<PreflightVerb>(&verb);
      preflight != nullptr && !preflight->operator_values.empty())
    return {preflight->operator_values};
  if (const auto* preflight = std::get_if<PreflightVerb>(&verb); preflight != nullptr && !preflight->nccl.empty())
    return {preflight->nccl};
  if (const auto* submit = std::get_if<SubmitVerb>(&verb); submit != nullptr && !submit->file.empty())
    return {submit->file};
  return {};
}

}  // namespace

int run(const std::vector<std::string>& args, Streams streams, const std::stop_token& stop) {
  const auto options = parse_options(args);
  if (!options) {
    (options.error().code == kDone ? streams.out : streams.err) << options.error().text;
    return options.error().code;
  }
  if (const auto* submit = std::get_if<SubmitVerb>(&options->verb); submit != nullptr && is_folder(submit->file)) {
    return complain(streams.err, unreadable(submit->file, "is a folder, and submit reads one Job"), kUsage);
  }
  auto manifests = read_manifests(files_of(options->verb), streams.in);
  if (!manifests) return complain(streams.err, manifests.error(), kUsage);
  const char* service = std::visit([](const auto& verb) { return verb.kService; }, options->verb);
  const auto endpoints = service == nullptr ? Endpoints() : read_endpoints(options->endpoints);
  if (!endpoints) return complain(streams.err, endpoints.error(), kUsage);
  if (service != nullptr) {
    const auto address = endpoints->address(service);
    if (!address) return complain(streams.err, address.error(), kUsage);
  }

  Client client({*endpoints, options->timeout, stop, &streams.err, options->security});
  const auto clock = endpoints->open_clock();
  Context context{client, *clock, options->format, streams.out, streams.err, std::move(*manifests), *endpoints};
  const auto done = std::visit([&](const auto& verb) { return run_verb(context, verb); }, options->verb);
  streams.out.flush();
  if (!done) return complain(streams.err, done.error(), code_of(done.error()));
  return context.code;
}

}  // namespace qm::cli
