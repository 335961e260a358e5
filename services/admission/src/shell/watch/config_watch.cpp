#include "qm/admission/translate/translate.hpp"
#include "qm/admission/watch.hpp"

namespace qm::admission {
namespace {

Json identity(const std::string& kind, const kube::ConfigFeed::Key& at) {
  return Json::object(
      {{"deleted", true}, {"kind", kind}, {"metadata", Json::object({{"namespace", at.first}, {"name", at.second}})}});
}

}  // namespace

const std::vector<kube::ConfigFeed::Kind>& ConfigWatch::kinds() {
  static const std::vector<std::string> kueue = {"v1beta2", "v1beta1"};
  static const std::vector<kube::ConfigFeed::Kind> all = {
      {"kueue.x-k8s.io", "topologies", "Topology", {"v1beta2", "v1beta1", "v1alpha1"}},
      {"kueue.x-k8s.io", "resourceflavors", "ResourceFlavor", kueue},
      {"kueue.x-k8s.io", "cohorts", "Cohort", kueue},
      {"kueue.x-k8s.io", "clusterqueues", "ClusterQueue", kueue},
      {"kueue.x-k8s.io", "localqueues", "LocalQueue", kueue},
      {"kueue.x-k8s.io", "admissionchecks", "AdmissionCheck", kueue, true},
      {"kueue.x-k8s.io", "workloadpriorityclasses", "WorkloadPriorityClass", kueue},
      {"scheduling.volcano.sh", "queues", "Queue", {"v1beta1"}},
      {"", "namespaces", "Namespace", {"v1"}},
      {"scheduling.k8s.io", "priorityclasses", "PriorityClass", {"v1"}},
  };
  return all;
}

ConfigWatch::ConfigWatch(kube::Client& client, service::Host& host)
    : mailbox_(host),
      feed_(client, "qm-admission", kinds(),
            {[this](const auto& kind, const Json& object) -> Status {
               auto bytes = object.dump();
               QM_TRY(objects_from_manifest(bytes, kind.kind + "/" + kube::name_of(object)));
               mailbox_.send("object", std::move(bytes), kube::uid_of(object));
               return {};
             },
             [this](const auto& kind, const auto& at) { mailbox_.send("object", identity(kind.kind, at).dump()); },
             [this](const auto& kind, const auto& present) {
               Json objects = Json::array();
               for (const auto& at : present) {
                 objects.push_back(Json::object({{"namespace", at.first}, {"name", at.second}}));
               }
               mailbox_.send("object.synced",
                             Json::object({{"kind", kind.kind}, {"objects", std::move(objects)}}).dump());
             }}) {}

ConfigWatch::~ConfigWatch() { stop(); }

void ConfigWatch::start() { feed_.start(); }

void ConfigWatch::stop() {
  mailbox_.stop();
  feed_.stop();
}

}  // namespace qm::admission
