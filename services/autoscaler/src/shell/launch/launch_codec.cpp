// Launches as intents, and their outcomes as commands.
#include "launch/launch_codec.hpp"

#include "instances/node_claim.hpp"
#include "qm/autoscaler/shell.hpp"

namespace qm::autoscaler {
namespace {

Refusal refusal_named(const std::string& name) {
  for (const auto other :
       {Refusal::kType, Refusal::kZone, Refusal::kMarket, Refusal::kAccount, Refusal::kOffering, Refusal::kLaunch}) {
    if (name == name_of(other)) return other;
  }
  return Refusal::kCapacity;
}

}  // namespace

std::vector<Command> launch_outcome(const Json& answer) {
  const Refusal refusal = refusal_named(answer["refusal"].string());
  const auto ended = [&](const Json& member) {
    return LaunchEnded{ClaimName(member["claim"].string()),
                       InstanceId(member["instance"].string()),
                       answer["error"].string(),
                       refusal,
                       member["type"].string(),
                       member["zone"].string()};
  };
  std::vector<Command> out;
  OfferingsRefused refused;
  for (const Json& one : answer["refused"].items()) {
    refused.offerings.push_back({one["type"].string(), one["zone"].string(),
                                 one["spot"].boolean() ? Market::kSpot : Market::kOnDemand,
                                 refusal_named(one["refusal"].string())});
  }
  if (!refused.offerings.empty()) out.emplace_back(std::move(refused));
  const bool alone = answer["members"].size() == 0;
  for (const Json& member : answer["members"].items()) out.push_back(ended(member));
  if (alone) out.push_back(ended(answer));
  return out;
}

std::string reservations_bytes(const std::vector<ReservationsListed::Item>& reservations) {
  Json list = Json::array();
  for (const auto& item : reservations) {
    const Reservation& one = item.reservation;
    Json classes = Json::array();
    for (const auto& name : item.classes) classes.push_back(name);
    Json object = Json::object({{"id", one.id},
                                {"type", one.type},
                                {"zone", one.zone},
                                {"block", one.block},
                                {"start_us", micros(one.start)},
                                {"total", one.count},
                                {"available", item.available},
                                {"classes", std::move(classes)}});
    if (one.end) object.set("end_us", micros(*one.end));
    list.push_back(std::move(object));
  }
  return list.dump();
}

ReservationsListed reservations_listed(const Json& list) {
  ReservationsListed out;
  for (const auto& one : list.items()) {
    auto& item = out.reservations.emplace_back();
    item.reservation = {one["id"].string(),
                        one["type"].string(),
                        one["zone"].string(),
                        one["block"].boolean(),
                        from_micros(one["start_us"].integer()),
                        std::nullopt,
                        one["total"].integer()};
    if (!one["end_us"].is_null()) item.reservation.end = from_micros(one["end_us"].integer());
    item.available = one["available"].integer();
    for (const auto& name : one["classes"].items()) item.classes.push_back(name.string());
  }
  return out;
}

// Intents have all data that the executor needs: it reads no state.
void Codec::encode_launches(const Output& out, service::Effects& effects) const {
  for (const auto& l : out.launches) {
    const bool gang = driver_ == Driver::kEc2 && !l.row.launch.empty();
    Json taints = Json::array(), labels = Json::object(), claims = Json::array();
    for (const auto& other : out.launches) {
      if (gang && other.row.launch == l.row.launch) claims.push_back(other.claim.value());
    }
    if (gang && claims.at(0).string() != l.claim.value()) continue;  // its first member has the whole launch
    for (const auto& t : l.pool.taints)
      taints.push_back(Json::object({{"key", t.key}, {"value", t.value}, {"effect", t.effect}}));
    for (const auto& [k, v] : l.pool.labels) labels.set(k, v);
    for (const auto& [k, v] : l.row.labels) labels.set(k, v);
    Json payload = Json::object({{"claim", l.claim.value()},
                                 {"pool", l.row.pool},
                                 {"type", l.row.type},
                                 {"zone", l.row.zone},
                                 {"spot", l.row.market == Market::kSpot},
                                 {"labels", std::move(labels)},
                                 {"taints", std::move(taints)},
                                 {"class", l.pool.node_class},
                                 {"lifecycle", launch_lifecycle(l, alone_)},
                                 {"reason", l.row.reason}});
    if (!l.row.reservation.empty()) payload.set("reservation", l.row.reservation);
    if (!l.others.empty() && driver_ == Driver::kEc2) {
      Json others = Json::array();
      for (const auto& other : l.others) others.push_back(Json::object({{"type", other.type}, {"zone", other.zone}}));
      payload.set("others", std::move(others));
    }
    if (gang) {
      payload.set("launch", l.row.launch);
      payload.set("claims", std::move(claims));
      effects.intents.push_back({"launch/" + l.row.launch, "gang.launch", l.row.launch, 0, payload.dump()});
    } else {
      effects.intents.push_back({"launch/" + l.claim.value(), "instance.launch", l.claim.value(), 0, payload.dump()});
    }
  }
}

}  // namespace qm::autoscaler
