#include "kube_lease.hpp"

#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "qm/kube/lease.hpp"

#include <fstream>
#include <thread>

namespace qm::replica {
namespace {
constexpr auto kEvery = std::chrono::seconds(5);  // the Lease names 15 s
}  // namespace

std::string own_namespace() {
  std::ifstream in("/var/run/secrets/kubernetes.io/serviceaccount/namespace");
  std::string name;
  return std::getline(in, name) && !name.empty() ? name : "default";
}

struct KubeLease::Impl {
  Impl(kube::ClientOptions server, std::string ns, std::string name, Term term, std::function<bool()> leads_now)
      : client(std::move(server)),
        lease(client, std::move(ns), std::move(name), {std::move(term.holder), term.number}),
        leads(std::move(leads_now)),
        thread([this](const std::stop_token& stop) { run(stop); }) {}

  void run(const std::stop_token& stop) {
    bool failed = false;
    while (!stop.stop_requested()) {
      if (leads()) {
        const auto done = lease.renew();
        if (!done && !failed) log::warn("the Lease is not written", {{"error", done.error().to_string()}});
        failed = !done;
      }
      sleep_unless_stopped(kEvery, stop);
    }
    if (!failed && leads()) (void)lease.give_up();
  }

  kube::Client client;
  kube::LeaseRecord lease;
  const std::function<bool()> leads;
  std::jthread thread;
};

KubeLease::KubeLease(kube::ClientOptions server, std::string ns, std::string name, Term term,
                     std::function<bool()> leads)
    : impl_(std::make_unique<Impl>(std::move(server), std::move(ns), std::move(name), std::move(term),
                                   std::move(leads))) {}
KubeLease::~KubeLease() = default;

}  // namespace qm::replica
