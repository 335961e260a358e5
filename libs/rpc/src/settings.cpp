#include "qm/rpc/process.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace qm::rpc {
namespace {

/// "a=b" as a pair; the error has the option.
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
  // The part before an @ may be a password.
  const auto at = text.rfind('@');
  return fmt::format("'{}' is not of the form host:port", at == std::string::npos ? text : "..." + text.substr(at));
}

std::string check_clock(const std::string& text) {
  if (text == "system" || (text.starts_with("scaled:") && text.size() > 7)) return {};
  return fmt::format("'{}' is neither system nor scaled:PATH", text);
}

std::string check_auth(const std::string& text) {
  if (text == "none" || text == "tokenreview" || (text.starts_with("static:") && text.size() > 7)) return {};
  return fmt::format("'{}' is none of none, tokenreview and static:FILE", text);
}

void security_options(CLI::App& app, Settings& settings) {
  app.add_option("--tls-cert", settings.tls.certificate, "certificate of this process with its chain, PEM")
      ->envname("QM_TLS_CERT");
  app.add_option("--tls-key", settings.tls.key, "its private key, PEM")->envname("QM_TLS_KEY");
  app.add_option("--tls-ca", settings.tls.ca, "authorities whose certificates are trusted, PEM")->envname("QM_TLS_CA");
  app.add_flag("--insecure", settings.insecure,
               "plain text, and unauthenticated calls, on other addresses than loopback too")
      ->envname("QM_INSECURE");
  app.add_option("--auth", settings.auth,
                 "authentication of users: none, tokenreview of Kubernetes, or static:FILE of tokens")
      ->envname("QM_AUTH")
      ->check(check_auth)
      ->capture_default_str();
  app.add_option("--roles", settings.roles, "RoleMap: which groups have which role and tenant")->envname("QM_ROLES");
}

/// CLI::ValidationError for contradictory settings.
void check_security(const Settings& settings, const std::string& process) {
  const bool serves = process != "agent";
  if (settings.tls.any()) {
    if (const auto ok = check_tls(settings.tls, serves); !ok)
      throw CLI::ValidationError(ok.error().field, fmt::format("{}; {}", ok.error().message, ok.error().remedy));
  }
  if (settings.auth != "none" && settings.roles.empty())
    throw CLI::ValidationError("--roles", "no user has a role; set a RoleMap, see docs/security.md");
}

/// For container runtimes, whose images have no shell and no curl.
bool is_ready(const std::string& address) {
  // A server that listens on all addresses is reachable on loopback.
  const std::string port = address.substr(address.rfind(':'));
  const std::string host =
      address.starts_with("0.0.0.0:") || address.starts_with("[::]:") ? "127.0.0.1" + port : address;
  http::ClientOptions options;
  options.timeout = std::chrono::milliseconds(2000);
  const auto answer = http::Client("http://" + host, options).send({.target = "/readyz"});
  return answer && answer->status == 200;
}

std::string check_level(const std::string& text) {
  const auto level = log::parse_level(text);
  return level ? std::string() : level.error().message;
}

}  // namespace

Settings parse_settings(int argc, char** argv, const Program& program) {
  Settings settings;
  std::vector<std::string> peers, extra;
  CLI::App app(program.description, program.name);
  app.footer(settings::help_text(program.settings));
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
  bool probe = false;
  app.add_flag("--probe", probe,
               "checks whether the process that runs with these settings is ready, and exits: 0 or 1");
  std::string replica = "standby";
  app.add_option("--replica", replica, "standby: waits until there is no leader; take: replaces the current leader")
      ->envname("QM_REPLICA")
      ->check(CLI::IsMember({"standby", "take"}))
      ->capture_default_str();
  app.add_option("--advertise", settings.advertise, "address of --grpc for other replicas, host:port")
      ->envname("QM_ADVERTISE")
      ->check(check_address);
  app.add_option("--lease-namespace", settings.lease_namespace, "namespace of the Lease that shows the leader")
      ->envname("QM_LEASE_NAMESPACE");
  app.add_flag("--migrate-only", settings.migrate_only, "migrates the schema and exits");
  std::string migrations = "apply";
  app.add_option("--migrations", migrations, "apply: migrates the schema at start; check: refuses another version")
      ->envname("QM_MIGRATIONS")
      ->check(CLI::IsMember({"apply", "check"}))
      ->capture_default_str();
  security_options(app, settings);
  app.add_option("--peer", peers, "a peer's gRPC address, service=host:port (repeatable)")
      ->envname("QM_PEERS")
      ->delimiter(',');
  app.add_option("--config", settings.manifests, "YAML applied at start (repeatable)")->check(CLI::ExistingFile);
  app.add_option("--set", extra, "a setting of the list below, name=value (repeatable)");
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
    settings.take = replica == "take";
    std::string last;
    for (const auto& peer : peers) {
      // Another address of the previous peer.
      if (!last.empty() && peer.find('=') == std::string::npos) {
        if (auto wrong = check_address(peer); !wrong.empty()) throw CLI::ValidationError("--peer", wrong);
        settings.peers[last] += "," + peer;
        continue;
      }
      auto [name, address] = split_pair("--peer", peer);
      last = name;
      if (auto wrong = check_address(address); !wrong.empty()) {
        throw CLI::ValidationError("--peer", wrong);
      }
      settings.peers.insert_or_assign(std::move(name), std::move(address));
    }
    for (const auto& one : extra) {
      auto [name, value] = split_pair("--set", one);
      settings.extra.insert_or_assign(std::move(name), std::move(value));
    }
    settings.check_only = migrations == "check";
    check_security(settings, program.name);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  if (probe) std::exit(is_ready(settings.http) ? 0 : 1);
  log::init(program.name, settings.log_format == "json" ? log::Format::kJson : log::Format::kText,
            *log::parse_level(settings.log_level));
  for (const auto& address : {settings.grpc, settings.http}) {
    if (const auto free = check_free(address); !free) {
      log::error("an address is in use", {{"error", free.error().to_string()}});
      std::exit(1);
    }
  }
  return settings;
}

}  // namespace qm::rpc
