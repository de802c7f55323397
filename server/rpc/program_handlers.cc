// SPDX-License-Identifier: Apache-2.0

#include "server/rpc/program_handlers.h"

#include "server/rpc/request_log.h"

namespace qgemm {
namespace {

// Room for thirty of the largest programs, half of it for one client.
constexpr int64_t kMaxWaitingProgramBytes = int64_t{32} << 20;

ByteBudgetOptions WaitingPrograms() {
  ByteBudgetOptions options;
  options.name = "programs that wait to be loaded";
  options.limit_bytes = kMaxWaitingProgramBytes;
  options.advice = "try again later";
  return options;
}

ClientShare WaitingProgramShare() {
  return {&ClientUsage::program_bytes, kMaxWaitingProgramBytes / 2,
          "programs that wait to be loaded", "", "load one after the other"};
}

void LogLoad(const v1::LoadProgramRequest& request,
             const v1::LoadProgramResponse& response, const Peer& peer) {
  const v1::ProgramInfo& program = response.program();
  LogProgram({program.id(), request.name(), program.ops(),
              program.resident_bytes(), response.deduplicated()},
             peer);
}

void LogUnloaded(const v1::UnloadProgramRequest& request,
                 const v1::UnloadProgramResponse& response, const Peer& peer) {
  LogProgramUnload(request.program(), response.freed(), peer);
}

}  // namespace

ProgramHandlers::ProgramHandlers(const CallServices& services,
                                 const ProgramQueries& queries,
                                 AsyncQgemm* service, const LongAnswers& lists)
    : queries_(queries),
      waiting_programs_(WaitingPrograms()),
      load_(
          services, service, {"LoadProgram", kLoadAccess},
          &AsyncQgemm::RequestLoadProgram,
          [this](const auto& request, const Peer& peer, auto* response) {
            return queries_.Load(peer.principal.get(), request, response);
          },
          {&load_executor_,
           nullptr,
           {},
           &waiting_programs_,
           WaitingProgramShare()},
          &LogLoad),
      unload_(
          services, service, {"UnloadProgram", kLoadAccess},
          &AsyncQgemm::RequestUnloadProgram,
          [this](const auto& request, const Peer& peer, auto* response) {
            return queries_.Unload(peer.principal.get(), request, response);
          },
          LongAnswers(), &LogUnloaded),
      list_(
          services, service, {"ListPrograms", kReadAccess},
          &AsyncQgemm::RequestListPrograms,
          [this](const auto& request, const Peer& peer, auto* response) {
            return queries_.List(peer.principal.get(), request, response);
          },
          lists),
      get_(services, service, {"GetProgram", kReadAccess},
           &AsyncQgemm::RequestGetProgram,
           [this](const auto& request, const Peer& peer, auto* response) {
             return queries_.Get(peer.principal.get(), request, response);
           }) {}

void ProgramHandlers::Accept(CompletionQueue* queue) {
  load_.Accept(queue);
  unload_.Accept(queue);
  list_.Accept(queue);
  get_.Accept(queue);
}

}  // namespace qgemm
