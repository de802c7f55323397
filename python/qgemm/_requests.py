# SPDX-License-Identifier: Apache-2.0
"""The calls that list, describe, bind and drop names, without a connection."""

from __future__ import annotations

from typing import Any, Callable

from qgemm import programs
from qgemm._calls import Call, T
from qgemm.v1 import qgemm_pb2 as pb

Page = tuple[list[T], str]  # and the token of the next one, or ""

_PAGE_SIZE = 1000


def _call(method: str, request: Any, response: Any,
          take: Callable[[Any], T]) -> Call[T]:
    return Call(method, request.SerializeToString(),
                lambda message: take(response.FromString(message)))


def info() -> Call[pb.GetServerInfoResponse]:
    return _call("GetServerInfo", pb.GetServerInfoRequest(), pb.GetServerInfoResponse,
                 lambda answer: answer)


def weights_page(prefix: str, token: str) -> Call[Page[pb.WeightsInfo]]:
    request = pb.ListWeightsRequest(page_size=_PAGE_SIZE, page_token=token,
                                    prefix=prefix)
    return _call("ListWeights", request, pb.ListWeightsResponse,
                 lambda answer: (list(answer.weights), answer.next_page_token))


def describe(weights: str) -> Call[pb.WeightsInfo]:
    return _call("GetWeights", pb.GetWeightsRequest(weights=weights),
                 pb.GetWeightsResponse, lambda answer: answer.weights)


def unload(weights: str, if_match: str, keep_on_disk: bool) -> Call[bool]:
    request = pb.UnloadWeightsRequest(weights=weights, if_match=if_match,
                                      keep_on_disk=keep_on_disk)
    return _call("UnloadWeights", request, pb.UnloadWeightsResponse,
                 lambda answer: answer.freed)


def load_program(name: str, program: programs.Program, create_only: bool,
                 if_match: str) -> Call[programs.LoadedProgram]:
    request = pb.LoadProgramRequest(name=name, program=program.message(),
                                    create_only=create_only, if_match=if_match)
    return _call("LoadProgram", request, pb.LoadProgramResponse,
                 lambda answer: programs.described(name, answer.program))


def program(name: str) -> Call[programs.LoadedProgram]:
    return _call("GetProgram", pb.GetProgramRequest(program=name),
                 pb.GetProgramResponse,
                 lambda answer: programs.described(name, answer.program))


def programs_page(token: str) -> Call[Page[pb.ProgramInfo]]:
    request = pb.ListProgramsRequest(page_size=_PAGE_SIZE, page_token=token)
    return _call("ListPrograms", request, pb.ListProgramsResponse,
                 lambda answer: (list(answer.programs), answer.next_page_token))


def unload_program(name: str, if_match: str) -> Call[bool]:
    request = pb.UnloadProgramRequest(program=name, if_match=if_match)
    return _call("UnloadProgram", request, pb.UnloadProgramResponse,
                 lambda answer: answer.freed)
