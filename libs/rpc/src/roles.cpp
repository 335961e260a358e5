// The roles file, and the file of tokens for tests.
#include "qm/base/log.hpp"
#include "qm/config/manifest.hpp"
#include "qm/rpc/access.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

namespace qm::rpc {
namespace {

constexpr std::size_t kMostTenants = 10'000;

struct Grant {
  std::set<std::string> users, groups;
  [[nodiscard]] bool covers(const Identity& who) const {
    return users.contains(who.name) ||
           std::ranges::any_of(who.groups, [&](const std::string& group) { return groups.contains(group); });
  }
};
struct Tenant {
  Grant members, leads;
  std::set<std::string> namespaces, teams;
};
struct Roles {
  Grant operators, auditors;
  std::vector<Tenant> tenants;
};

/// Reads the parts of one document, and keeps the first error. An unknown key is an error: a misspelled "groups"
/// would assign a role to no user, or revoke none.
class Reader {
 public:
  explicit Reader(const config::Document& document) : document_(document) {}
  [[nodiscard]] const std::optional<Error>& wrong() const { return wrong_; }

  void complain(const std::string& field, const std::string& what, const std::string& remedy) {
    if (wrong_) return;
    const auto line = document_.lines.find(field);
    wrong_ = Error{Code::kInvalid,
                   fmt::format("{}:{}: {}: {}", document_.file,
                               line == document_.lines.end() ? document_.line : line->second, field, what),
                   field, remedy};
  }
  void keys(const Json& at, const std::string& field, const std::vector<std::string>& known) {
    if (!at.is_object()) return complain(field, "is not a mapping", fmt::format("use {}", fmt::join(known, ", ")));
    for (const auto& [key, value] : at.members()) {
      if (std::ranges::find(known, key) == known.end())
        complain(field + "." + key, "is not known", fmt::format("use {}", fmt::join(known, ", ")));
    }
  }
  std::set<std::string> names(const Json& at, const std::string& field) {
    std::set<std::string> out;
    if (at.is_null()) return out;
    if (!at.is_array()) complain(field, "is not a list", "write it as a list of names");
    for (const auto& item : at.items()) {
      if (item.string().empty()) complain(field, "has an entry that is not a name", "write names as text, none empty");
      out.insert(item.string());
    }
    return out;
  }
  Grant grant(const Json& at, const std::string& field) {
    if (at.is_null()) return {};
    keys(at, field, {"users", "groups"});
    return {names(at["users"], field + ".users"), names(at["groups"], field + ".groups")};
  }

 private:
  const config::Document& document_;
  std::optional<Error> wrong_;
};

Result<Roles> read_roles(const std::string& path, const std::string& text) {
  const auto loaded = config::load_text(text, path);
  for (const auto& diagnostic : loaded.diagnostics) {
    if (diagnostic.severity == config::Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, diagnostic.to_string(), "--roles", "see docs/security.md"});
  }
  if (loaded.objects.size() != 1 || loaded.objects[0].document.kind != "RoleMap" ||
      loaded.objects[0].document.api_version != "access.quartermaster.dev/v1alpha1") {
    return fail(
        Error{Code::kInvalid, fmt::format("{} is not a RoleMap", path), "--roles",
              "write one document of access.quartermaster.dev/v1alpha1, kind RoleMap, as docs/security.md shows"});
  }
  const auto& document = loaded.objects[0].document;
  Reader reader(document);
  Roles out;
  reader.keys(document.content, "", {"apiVersion", "kind", "metadata", "spec"});
  const auto& spec = document.content["spec"];
  reader.keys(spec, "spec", {"operators", "auditors", "tenants"});
  out.operators = reader.grant(spec["operators"], "spec.operators");
  out.auditors = reader.grant(spec["auditors"], "spec.auditors");
  const auto& tenants = spec["tenants"];
  if (!tenants.is_null() && !tenants.is_array()) reader.complain("spec.tenants", "is not a list", "begin each with -");
  if (tenants.size() > kMostTenants) reader.complain("spec.tenants", "is too long", "name at most 10000");
  for (std::size_t i = 0; i < tenants.size() && i < kMostTenants; ++i) {
    const auto& at = tenants.at(i);
    const auto field = fmt::format("spec.tenants[{}]", i);
    reader.keys(at, field, {"name", "users", "groups", "leads", "namespaces", "teams"});
    Tenant tenant;
    tenant.members = {reader.names(at["users"], field + ".users"), reader.names(at["groups"], field + ".groups")};
    tenant.leads = reader.grant(at["leads"], field + ".leads");
    tenant.namespaces = reader.names(at["namespaces"], field + ".namespaces");
    tenant.teams = reader.names(at["teams"], field + ".teams");
    out.tenants.push_back(std::move(tenant));
  }
  if (reader.wrong()) return fail(*reader.wrong());
  return out;
}

/// Changes with every write of the file, also when a ConfigMap's link is changed to another folder.
using Stamp = std::pair<std::filesystem::file_time_type, std::uintmax_t>;
Stamp stamp_of(const std::string& path) {
  std::error_code ignored;
  return {std::filesystem::last_write_time(path, ignored), std::filesystem::file_size(path, ignored)};
}

Result<std::string> read_text(const std::string& flag, const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in) return fail(Error{Code::kInvalid, fmt::format("{} cannot be read", path), flag, "name a file that exists"});
  return text.str();
}

}  // namespace

struct RoleMap::Impl {
  std::string path;
  std::mutex mutex;
  Stamp stamp;
  Roles roles;

  void look() {
    const auto now = stamp_of(path);
    if (now == stamp) return;
    stamp = now;
    const auto text = read_text("--roles", path);
    auto read = text ? read_roles(path, *text) : Result<Roles>(fail(text.error()));
    if (read) {
      roles = std::move(*read);
      log::info("roles reloaded", {{"file", path}, {"tenants", roles.tenants.size()}});
    } else {
      log::error("the roles file cannot be used; its previous content stays in effect",
                 {{"error", read.error().to_string()}});
    }
  }
};

Result<std::shared_ptr<RoleMap>> RoleMap::open(const std::string& path) {
  auto impl = std::make_shared<Impl>();
  impl->path = path;
  impl->stamp = stamp_of(path);
  QM_ASSIGN(const auto text, read_text("--roles", path));
  QM_ASSIGN(impl->roles, read_roles(path, text));
  return std::shared_ptr<RoleMap>(new RoleMap(std::move(impl)));
}

Caller RoleMap::caller(const Identity& identity) {
  const std::lock_guard lock(impl_->mutex);
  impl_->look();
  Caller out;
  out.name = identity.name;
  out.groups = identity.groups;
  out.operator_ = impl_->roles.operators.covers(identity);
  out.auditor = impl_->roles.auditors.covers(identity);
  out.everything = out.operator_ || out.auditor;
  out.everywhere = out.operator_;
  for (const auto& tenant : impl_->roles.tenants) {
    const bool leads = tenant.leads.covers(identity);
    if (!leads && !tenant.members.covers(identity)) continue;
    out.user = true;
    out.team_lead = out.team_lead || leads;
    out.namespaces.insert(tenant.namespaces.begin(), tenant.namespaces.end());
    out.teams.insert(tenant.teams.begin(), tenant.teams.end());
    if (leads) out.led.insert(tenant.teams.begin(), tenant.teams.end());
  }
  return out;
}

Review review_by_kubernetes(std::function<Result<Json>(const Json& review)> post, std::string audience) {
  return [post = std::move(post), audience = std::move(audience)](const std::string& token) -> Result<Identity> {
    const auto unauthenticated = [](std::string why) {
      return fail(Error{Code::kUnauthenticated, std::move(why), {}, "request a new token of audience quartermaster"});
    };
    const auto answer =
        post(Json::object({{"apiVersion", "authentication.k8s.io/v1"},
                           {"kind", "TokenReview"},
                           {"spec", Json::object({{"token", token}, {"audiences", Json::array({audience})}})}}));
    if (!answer) {
      // Not the caller's fault: the refusal concerns this server's credentials, and other errors are temporary.
      return fail(Error{Code::kUnavailable,
                        fmt::format("the token cannot be reviewed: {}", answer.error().message),
                        {},
                        answer.error().code == Code::kPermissionDenied
                            ? "allow the service to create tokenreviews (system:auth-delegator)"
                            : "try again in a second"});
    }
    const auto& status = (*answer)["status"];
    if (!status["authenticated"].boolean()) return unauthenticated("the bearer token is not valid");
    // A server without support for audiences omits them, and so has not checked any.
    const auto& audiences = status["audiences"].items();
    if (std::ranges::none_of(audiences, [&](const Json& one) { return one.string() == audience; }))
      return unauthenticated(fmt::format("the bearer token was not made for audience {}", audience));
    Identity out;
    out.name = status["user"]["username"].string();
    for (const auto& group : status["user"]["groups"].items()) out.groups.push_back(group.string());
    if (out.name.empty()) return unauthenticated("the bearer token is not authenticated");
    return out;
  };
}

Result<Review> review_by_file(const std::string& path) {
  QM_ASSIGN(const auto text, read_text("--auth", path));
  auto known = std::make_shared<std::map<std::string, Identity>>();
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    const auto token_end = line.find(',');
    const auto user_end = token_end == std::string::npos ? token_end : line.find(',', token_end + 1);
    if (token_end == 0 || user_end == std::string::npos || user_end == token_end + 1) {
      return fail(Error{Code::kInvalid,
                        fmt::format("{}:{}: is not of the form token,user,uid,\"groups\"", path, number), "--auth",
                        "write it as kube-apiserver's --token-auth-file is written"});
    }
    Identity identity;
    identity.name = line.substr(token_end + 1, user_end - token_end - 1);
    if (const auto groups = line.find(',', user_end + 1); groups != std::string::npos) {
      auto rest = line.substr(groups + 1);
      std::erase(rest, '"');
      std::istringstream each(rest);
      for (std::string group; std::getline(each, group, ',');) {
        if (!group.empty()) identity.groups.push_back(group);
      }
    }
    (*known)[line.substr(0, token_end)] = std::move(identity);
  }
  return Review([known](const std::string& token) -> Result<Identity> {
    const auto found = known->find(token);
    if (found != known->end()) return found->second;
    return fail(Error{Code::kUnauthenticated, "the bearer token is not known", {}, "request a new one"});
  });
}

}  // namespace qm::rpc
