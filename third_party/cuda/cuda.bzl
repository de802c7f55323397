"""cuda_library: a cc_library from device code that nvcc compiles."""

load(
    "@local_cuda//:toolkit.bzl",
    "CUDA_HOME",
    "CUDA_ONLY",
    "CUDA_VERSION",
)

# Machine code of each supported GPU, and PTX that any later one compiles at
# load. `--define=cuda_arch=all` makes everything that is shipped; the default
# is Hopper, which is what is measured.
_HOPPER = ["sm_90a"]
_ALL = [
    "sm_80",
    "sm_89",
    "sm_90a",
]
_PTX = "compute_90"

_NVCC_FLAGS = [
    "-std=c++17",
    "-O3",
    "--Werror=all-warnings",
    # Not in /tmp, where the names of two compilers in sandboxes of their own
    # meet: both are process 2.
    "--objdir-as-tempdir",
    "-Xcompiler=-fPIC",
    "-Xcompiler=-fno-strict-aliasing",
]

# Runs the compiler, its arguments after the first, which is a file for its
# messages. The assembler only informs where it cannot keep asynchronous
# multiplications so; a kernel that is so slow must not be built unnoticed.
_COMPILE = """
messages="$1"; shift
"$@" 2>"$messages"; code="$?"
cat "$messages" >&2
[ "$code" -eq 0 ] || exit "$code"
if grep -q 'instructions are serialized' "$messages"; then
  echo "error: wgmma instructions are serialized" >&2
  exit 1
fi
"""

def _gencode(targets):
    flags = [
        "-gencode=arch=%s,code=%s" % (t.replace("sm_", "compute_"), t)
        for t in targets
    ]
    return flags + ["-gencode=arch=%s,code=%s" % (_PTX, _PTX)]

def _cuda_objects_impl(ctx):
    headers = depset(
        ctx.files.hdrs,
        transitive = [
            dep[CcInfo].compilation_context.headers
            for dep in ctx.attr.deps
        ],
    )
    objects = []
    for source in ctx.files.srcs:
        stem = source.basename[:-len(".cu")]
        output = ctx.actions.declare_file(
            "_objs/%s/%s.pic.o" % (ctx.label.name, stem),
        )
        arguments = ctx.actions.args()
        arguments.add(output.path + ".messages")
        arguments.add(CUDA_HOME + "/bin/nvcc")
        arguments.add_all(_NVCC_FLAGS)
        arguments.add_all(ctx.attr.gencode)
        arguments.add_all(ctx.attr.copts)
        arguments.add_all(["-I", ".", "-c", source, "-o", output])
        ctx.actions.run_shell(
            command = _COMPILE,
            arguments = [arguments],
            inputs = depset([source], transitive = [headers]),
            outputs = [output],
            mnemonic = "CudaCompile",
            progress_message = "Compiling device code %s" % source.short_path,
            env = {
                # nvcc runs the host compiler by its name.
                "PATH": "/usr/bin:/bin",
                "TMPDIR": "/tmp",
                "CUDA_TOOLKIT_VERSION": CUDA_VERSION,
            },
        )
        objects.append(output)
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "gencode": attr.string_list(),
        "hdrs": attr.label_list(allow_files = True),
        "srcs": attr.label_list(allow_files = [".cu"]),
    },
)

def cuda_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        copts = [],
        linkopts = [],
        **kwargs):
    """A library of device code, each .cu compiled by an action of its own.

    Without a toolkit the target is incompatible: a build of //... skips it.

    Args:
      name: of the cc_library.
      srcs: .cu files, and headers that only they include.
      hdrs: headers that host code includes.
      deps: cc_library targets, for their headers and for linking.
      copts: further flags of nvcc.
      linkopts: of the cc_library.
      **kwargs: of the cc_library, such as visibility.
    """
    sources = [source for source in srcs if source.endswith(".cu")]
    headers = [source for source in srcs if not source.endswith(".cu")]
    objects = []
    if sources:
        objects = [name + "_objects"]
        _cuda_objects(
            name = name + "_objects",
            srcs = sources,
            hdrs = hdrs + headers,
            copts = copts + select({
                "//third_party/cuda:for_racecheck": ["-DQGEMM_RACECHECK=1"],
                "//conditions:default": [],
            }),
            gencode = select({
                "//third_party/cuda:all_architectures": _gencode(_ALL),
                "//conditions:default": _gencode(_HOPPER),
            }),
            deps = deps,
            testonly = kwargs.get("testonly", False),
            tags = ["manual"],
            visibility = ["//visibility:private"],
            target_compatible_with = CUDA_ONLY,
        )
    native.cc_library(
        name = name,
        srcs = objects,
        hdrs = hdrs,
        linkopts = linkopts,
        deps = deps + ["@local_cuda//:cudart"],
        target_compatible_with = CUDA_ONLY,
        **kwargs
    )
