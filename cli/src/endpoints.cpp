#include "endpoints.hpp"

#include "qm/base/json.hpp"

#include <array>
#include <fstream>
#include <sstream>

namespace qm::cli {
namespace {

constexpr std::array kServices{"admission", "placement", "autoscaler", "telemetry", "cost"};

bool is_address(const std::string& text) {
  const auto colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 && colon + 1 < text.size() && text.size() - colon <= 6 &&
         text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

}  // namespace

Result<std::string> Endpoints::address(const std::string& service) const {
  const auto found = services.find(service);
  if (found != services.end()) return found->second;
  return fail({Code::kInvalid, fmt::format("{} names no address of {}", file, service), service,
               fmt::format("add \"{}\": \"host:port\" to it", service)});
}

std::unique_ptr<DomainClock> Endpoints::open_clock() const {
  auto opened = make_clock(clock);
  if (!opened) return std::make_unique<SystemClock>();
  return std::move(*opened);
}

Result<Endpoints> read_endpoints(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  if (in) text << in.rdbuf();
  if (!in || text.str().empty()) {
    return fail({Code::kInvalid, fmt::format("the endpoints file {} cannot be read", file), "--endpoints",
                 "start the suite, or name a file by --endpoints or QM_ENDPOINTS"});
  }
  const auto json = Json::parse(text.str());
  if (!json || !json->is_object()) {
    return fail({Code::kInvalid,
                 fmt::format("the endpoints file {} is not a JSON object{}", file,
                             json ? std::string() : ": " + json.error().message),
                 "--endpoints", "write {\"admission\": \"host:port\", ...}"});
  }
  Endpoints out;
  out.file = file;
  for (const char* service : kServices) {
    const auto* address = json->find(service);
    if (address == nullptr) continue;
    if (!is_address(address->string())) {
      return fail({Code::kInvalid, fmt::format("{}: {} is not a valid address", file, address->dump()), service,
                   "write it as \"host:port\""});
    }
    out.services[service] = address->string();
  }
  if (const auto& clock = (*json)["clock"].string(); !clock.empty())
    out.clock = clock == "system" || clock.starts_with("scaled:") ? clock : "scaled:" + clock;
  out.fleet = (*json)["fleet"].string();
  return out;
}

}  // namespace qm::cli
