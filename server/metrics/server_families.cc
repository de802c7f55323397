// SPDX-License-Identifier: Apache-2.0
//
// Every series is made at the start, so that a rate over any has one.

#include "server/metrics/server_families.h"

#include <utility>

#include "base/check.h"

namespace qgemm {

const char* NameOf(HealthState state) {
  switch (state) {
    case HealthState::kStarting:
      return "starting";
    case HealthState::kServing:
      return "serving";
    case HealthState::kDraining:
      return "draining";
    case HealthState::kFailed:
      return "failed";
  }
  return "";
}

HealthFamily::HealthFamily(prometheus::Registry& registry) {
  auto& family = prometheus::BuildGauge()
                     .Name("qgemm_health")
                     .Help("1 for the state that the server is in, else 0.")
                     .Register(registry);
  for (int i = 0; i < kStates; ++i) {
    gauges_[i] = &family.Add({{"state", NameOf(static_cast<HealthState>(i))}});
  }
  Set(HealthState::kStarting, "");
}

void HealthFamily::Set(HealthState state, absl::string_view reason) {
  MutexLock lock(&mutex_);
  report_ = {state, std::string(reason)};
  for (int i = 0; i < kStates; ++i) {
    gauges_[i]->Set(i == static_cast<int>(state) ? 1 : 0);
  }
}

HealthReport HealthFamily::Get() const {
  MutexLock lock(&mutex_);
  return report_;
}

TransportFamilies::TransportFamilies(prometheus::Registry& registry)
    : refused(registry, "qgemm_connections_refused_total",
              "Connections that a limit refused or closed.", "reason") {
  for (const char* reason : {"total", "peer", "fd", "transit", "lane"}) {
    refused.Find(reason);
  }
  auto& open = prometheus::BuildGauge()
                   .Name("qgemm_connections")
                   .Help("Open gRPC connections, and lanes.")
                   .Register(registry);
  auto& accepted = prometheus::BuildCounter()
                       .Name("qgemm_connections_accepted_total")
                       .Help("gRPC connections, and lanes, that were accepted.")
                       .Register(registry);
  auto& bytes = prometheus::BuildCounter()
                    .Name("qgemm_transport_bytes_total")
                    .Help("Bytes of gRPC connections; operands of lanes.")
                    .Register(registry);
  for (const char* name : {"tcp", "unix", "tls", "lane"}) {
    Of(name) = {
        &open.Add({{"transport", name}}),
        &accepted.Add({{"transport", name}}),
        &bytes.Add({{"transport", name}, {"direction", "received"}}),
        &bytes.Add({{"transport", name}, {"direction", "sent"}}),
    };
  }
}

TransportFamilies::Transport& TransportFamilies::Of(absl::string_view name) {
  CHECK(name == "tcp" || name == "unix" || name == "tls" || name == "lane");
  if (name == "lane") return lane_;
  if (name == "tls") return tls_;
  return name == "tcp" ? tcp_ : unix_;
}

void TransportFamilies::ConnectionsChanged(absl::string_view transport,
                                           int64_t delta) {
  Transport& changed = Of(transport);
  changed.open->Increment(static_cast<double>(delta));
  if (delta > 0) changed.accepted->Increment(static_cast<double>(delta));
}

void TransportFamilies::AddBytes(absl::string_view transport,
                                 Direction direction, int64_t bytes) {
  const Transport& counted = Of(transport);
  (direction == Direction::kReceived ? counted.received : counted.sent)
      ->Increment(static_cast<double>(bytes));
}

LaneFamilies::LaneFamilies(prometheus::Registry& registry)
    : bytes(AddGauge(registry, "qgemm_lane_bytes",
                     "Memory shared with clients of lanes.")),
      wakes(AddCounter(registry, "qgemm_lane_wakes_total",
                       "Wake-ups of the thread that polls lanes.")),
      ended(registry, "qgemm_lanes_ended_total", "Lanes that have ended.",
            "reason") {
  for (const char* reason :
       {"hangup", "index", "slot", "packet", "unread", "drain"}) {
    ended.Find(reason);
  }
}

TlsFamilies::TlsFamilies(prometheus::Registry& registry)
    : expiry(prometheus::BuildGauge()
                 .Name("qgemm_tls_certificate_expiry_seconds")
                 .Help("End of a certificate, in seconds since 1970.")
                 .Register(registry)),
      reload_failures(AddCounter(registry, "qgemm_tls_reload_failures_total",
                                 "Changed certificates that were not taken.")),
      handshake_failures(registry, "qgemm_tls_handshake_failures_total",
                         "TLS handshakes that failed.", "reason") {
  for (const char* reason :
       {"no_certificate", "unknown_ca", "expired", "not_yet_valid",
        "wrong_purpose", "revoked", "bad_certificate", "protocol", "aborted",
        "incomplete"}) {
    handshake_failures.Find(reason);
  }
}

CallFamilies::CallFamilies(prometheus::Registry& registry)
    : timed_out(registry, "qgemm_calls_timed_out_total",
                "Calls that were ended because they made no progress.", "kind"),
      streams(AddGauge(registry, "qgemm_streams", "Open GemmStream calls.")),
      uploads(AddGauge(registry, "qgemm_uploads", "Uploads in progress.")),
      uploads_waiting(AddGauge(registry, "qgemm_interrupted_uploads",
                               "Uploads that wait to be continued.")),
      uploads_continued(AddCounter(registry, "qgemm_continued_uploads_total",
                                   "Uploads that were continued.")),
      answers(AddGauge(registry, "qgemm_answers_waiting",
                       "Answers that their clients have not read.")),
      answer_bytes(AddGauge(registry, "qgemm_answers_waiting_bytes",
                            "Operand bytes of those answers.")) {
  for (const char* kind :
       {"upload_idle", "upload_rate", "operand_idle", "answer_idle"}) {
    timed_out.Find(kind);
  }
}

AccessFamilies::AccessFamilies(prometheus::Registry& registry)
    : denied(registry, "qgemm_denied_calls_total",
             "Calls that the access table refused.", "reason"),
      reload_failures(AddCounter(registry, "qgemm_access_reload_failures_total",
                                 "Access tables that were not valid and left "
                                 "the one before in force.")) {
  for (const char* reason :
       {"unknown", "token", "forwarded", "right", "connections"}) {
    denied.Find(reason);
  }
}

void AddBuildInfo(prometheus::Registry& registry, const BuildInfo& build) {
  prometheus::BuildGauge()
      .Name("qgemm_build_info")
      .Help("1; its labels say what runs.")
      .Register(registry)
      .Add({{"version", build.version},
            {"backend", build.backend},
            {"device", build.device},
            {"detail", build.detail}})
      .Set(1);
}

}  // namespace qgemm
