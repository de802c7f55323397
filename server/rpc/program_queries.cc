// SPDX-License-Identifier: Apache-2.0
//
// Answers from the store of programs.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/programs/checked_program.h"
#include "kernels/programs/program.h"
#include "server/rpc/list_pages.h"
#include "server/rpc/queries.h"
#include "server/rpc/translate.h"
#include "server/weights/name_binding.h"

namespace qgemm {
namespace {

v1::NumberType ToMessage(NumberType type) {
  switch (type) {
    case NumberType::kFloat32:
      return v1::NUMBER_TYPE_FP32;
    case NumberType::kFloat16:
      return v1::NUMBER_TYPE_FP16;
    case NumberType::kBFloat16:
      return v1::NUMBER_TYPE_BF16;
    case NumberType::kInt32:
      return v1::NUMBER_TYPE_INT32;
  }
  return v1::NUMBER_TYPE_UNSPECIFIED;
}

void Describe(const std::string& name, const ProgramValue& value,
              v1::ProgramInfo::Value* message) {
  message->set_name(name);
  message->set_type(ToMessage(value.type));
  message->set_width(value.width);
}

// Inputs and outputs, in the order of a call's operand and answer.
void DescribeValues(const CheckedProgram& program, v1::ProgramInfo* info) {
  const std::vector<ProgramInput>& inputs = program.program().inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Describe(inputs[i].name, program.values()[i], info->add_inputs());
  }
  for (const ValueNumber number : program.program().outputs) {
    const ProgramValue& value = program.values()[number];
    Describe(program.ops()[value.made_by].name, value, info->add_outputs());
  }
  info->set_input_row_bytes(program.input_row_bytes());
  info->set_output_row_bytes(program.output_row_bytes());
}

// All but the text. Values' names are those of the client that loaded the
// program first, which may be another than the caller.
void Describe(const Principal* caller, const NamedProgram& named,
              v1::ProgramInfo* info) {
  const CheckedProgram& program = named.record->compiled->program();
  info->set_id(named.record->id);
  for (const std::string& name : named.names) info->add_names(name);
  info->set_name_count(named.name_count);
  DescribeValues(program, info);
  if (!ManagesAll(caller)) {
    for (auto& value : *info->mutable_inputs()) value.clear_name();
    for (auto& value : *info->mutable_outputs()) value.clear_name();
  }
  info->set_ops(program.ops().size());
  for (const std::string& id : program.weights_ids()) info->add_weights(id);
  info->set_resident_bytes(named.record->reserved_bytes);
}

void DescribeWithText(const Principal* caller, const NamedProgram& named,
                      v1::ProgramInfo* info) {
  Describe(caller, named, info);
  info->set_text(named.record->text);
}

NameBinding BindingOf(const v1::LoadProgramRequest& request) {
  return {request.name(), request.create_only(), request.if_match()};
}

}  // namespace

ProgramQueries::ProgramQueries(Backend* backend, WeightStore* weights,
                               ProgramStore* programs,
                               int64_t max_message_bytes, LayerLoader* loader)
    : backend_(backend),
      programs_(programs),
      loader_(backend, weights, programs, loader),
      max_message_bytes_(max_message_bytes) {}

absl::Status ProgramQueries::Load(const Principal* caller,
                                  const v1::LoadProgramRequest& request,
                                  v1::LoadProgramResponse* response) const {
  ASSIGN_OR_RETURN(Program declared, ToProgram(request.program()));
  ASSIGN_OR_RETURN(
      const LoadProgramResult loaded,
      loader_.Load(caller, std::move(declared), BindingOf(request)));
  NamedProgram named{loaded.program, {}, 0};
  // Another call may have unloaded it meanwhile.
  absl::StatusOr<NamedProgram> held =
      programs_->Get(caller, loaded.program->id);
  if (held.ok()) named = *std::move(held);
  DescribeWithText(caller, named, response->mutable_program());
  response->set_deduplicated(loaded.deduplicated);
  return absl::OkStatus();
}

absl::Status ProgramQueries::Unload(const Principal* caller,
                                    const v1::UnloadProgramRequest& request,
                                    v1::UnloadProgramResponse* response) const {
  ASSIGN_OR_RETURN(
      const bool freed,
      programs_->Unload(caller, request.program(), request.if_match()));
  response->set_freed(freed);
  return absl::OkStatus();
}

absl::Status ProgramQueries::List(const Principal* caller,
                                  const v1::ListProgramsRequest& request,
                                  v1::ListProgramsResponse* response) const {
  ASSIGN_OR_RETURN(PageRoom room, RoomOf(request, max_message_bytes_));
  FillPage(
      std::move(room),
      [&](absl::string_view place, int64_t most) {
        return programs_->List(caller, place, most);
      },
      [caller](const NamedProgram& named, v1::ProgramInfo* info) {
        Describe(caller, named, info);
      },
      response->mutable_programs(), response->mutable_next_page_token());
  return absl::OkStatus();
}

absl::Status ProgramQueries::Get(const Principal* caller,
                                 const v1::GetProgramRequest& request,
                                 v1::GetProgramResponse* response) const {
  ASSIGN_OR_RETURN(
      const NamedProgram named,
      programs_->Get(caller, request.program(), request.names_after()));
  DescribeWithText(caller, named, response->mutable_program());
  return absl::OkStatus();
}

void ProgramQueries::AddServerInfo(const Principal* caller,
                                   v1::GetServerInfoResponse* response) const {
  if (backend_->programs() != nullptr) {
    response->set_program_revision(kProgramRevision);
  }
  response->set_programs(programs_->program_count(caller));
}

}  // namespace qgemm
