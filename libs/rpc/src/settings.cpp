#include "qm/rpc/process.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace qm::rpc {
namespace {

/// "a=b" as a pair; the error text names the option.
std::pair<std::string, std::string> split_pair(const std::string& option, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw CLI::ValidationError(option, fmt::format("'{}' is not of the form name=value", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string check_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto port = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (digits && colon > 0 && std::stoi(port) <= 65535) return {};
  return fmt::format("'{}' is not of the form host:port", text);
}

std::string check_clock(const std::string& text) {
  if (text == "system" || (text.starts_with("scaled:") && text.size() > 7)) return {};
  return fmt::format("'{}' is neither system nor scaled:PATH", text);
}

std::string check_level(const std::string& text) {
  const auto level = log::parse_level(text);
  return level ? std::string() : level.error().message;
}

}  // namespace

Settings parse_settings(int argc, char** argv, const std::string& process, const std::string& description) {
  Settings settings;
  std::vector<std::string> peers, extra;
  CLI::App app(description, process);
  app.add_option("--grpc", settings.grpc, "gRPC address, host:port (port 0 = any free one)")
      ->envname("QM_GRPC")
      ->check(check_address)
      ->capture_default_str();
  app.add_option("--http", settings.http, "metrics, health and debug address, host:port")
      ->envname("QM_HTTP")
      ->check(check_address)
      ->capture_default_str();
  app.add_option("--postgres", settings.postgres, "PostgreSQL conninfo")->envname("QM_POSTGRES");
  app.add_option("--bus", settings.bus, "memory, postgres:CONNINFO or kafka:HOST:PORT[,HOST:PORT]")->envname("QM_BUS");
  app.add_option("--redis", settings.redis, "Redis address, host:port")->envname("QM_REDIS")->check(check_address);
  app.add_option("--kube", settings.kube, "Kubernetes API, http(s)://host:port")->envname("QM_KUBE");
  app.add_option("--clock", settings.clock, "system, or scaled:PATH of a clock file")
      ->envname("QM_CLOCK")
      ->check(check_clock)
      ->capture_default_str();
  app.add_option("--shard", settings.shard, "name of the shard (one cluster)")
      ->envname("QM_SHARD")
      ->capture_default_str();
  app.add_option("--peer", peers, "a peer's gRPC address, service=host:port (repeatable)")
      ->envname("QM_PEERS")
      ->delimiter(',');
  app.add_option("--config", settings.manifests, "YAML applied at start (repeatable)")->check(CLI::ExistingFile);
  app.add_option("--set", extra, "a setting of this service, name=value (repeatable)");
  app.add_option("--log-level", settings.log_level, "trace, debug, info, warn, error or off")
      ->envname("QM_LOG_LEVEL")
      ->check(check_level)
      ->capture_default_str();
  app.add_option("--log-format", settings.log_format, "text or json")
      ->envname("QM_LOG_FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    for (const auto& peer : peers) {
      auto [name, address] = split_pair("--peer", peer);
      if (auto wrong = check_address(address); !wrong.empty()) {
        throw CLI::ValidationError("--peer", wrong);
      }
      settings.peers.insert_or_assign(std::move(name), std::move(address));
    }
    for (const auto& one : extra) {
      auto [name, value] = split_pair("--set", one);
      settings.extra.insert_or_assign(std::move(name), std::move(value));
    }
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  log::init(process, settings.log_format == "json" ? log::Format::kJson : log::Format::kText,
            *log::parse_level(settings.log_level));
  for (const auto& address : {settings.grpc, settings.http}) {
    if (const auto free = check_free(address); !free) {
      log::error("an address is taken", {{"error", free.error().to_string()}});
      std::exit(1);
    }
  }
  return settings;
}

}  // namespace qm::rpc
