"""Finds the CUDA toolkit and makes the repository @local_cuda from it.

Looks at $CUDA_HOME, then at /usr/local/cuda, for bin/nvcc. QGEMM_CUDA=off
makes the build behave as if there were none:

    bazel build --repo_env=QGEMM_CUDA=off //...

@local_cuda//:toolkit.bzl tells what was found; :headers and :cudart are empty
libraries without a toolkit.
"""

_DEFAULT_HOME = "/usr/local/cuda"

# Every header that cuda_runtime_api.h and cublasLt.h reach. nvcc finds its
# own, so the device libraries (cccl, cooperative_groups) stay out.
_BUILD_WITH_TOOLKIT = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/*",
    ]),
    includes = ["include"],
)

# The runtime, linked in; it finds the driver's library when it first needs it.
cc_library(
    name = "cudart",
    srcs = ["lib64/libcudart_static.a"],
    linkopts = [
        "-ldl",
        "-lpthread",
        "-lrt",
    ],
    deps = [":headers"],
)
"""

_BUILD_WITHOUT_TOOLKIT = """\
package(default_visibility = ["//visibility:public"])

cc_library(name = "headers")

cc_library(name = "cudart")
"""

_TOOLKIT = """\
# What cuda_configure found.

CUDA_FOUND = {found}

CUDA_HOME = "{home}"

# Of nvcc: part of each device action's key, so that another toolkit's objects
# are never taken from a cache.
CUDA_VERSION = "{version}"

# For target_compatible_with: keeps what needs the toolkit out of a build that
# has none.
CUDA_ONLY = {compatible}
"""

def _home(repository_ctx):
    """The toolkit's folder, or None."""
    environ = repository_ctx.os.environ
    if environ.get("QGEMM_CUDA", "on") == "off":
        return None
    for home in [environ.get("CUDA_HOME", ""), _DEFAULT_HOME]:
        if home and repository_ctx.path(home + "/bin/nvcc").exists:
            return home
    return None

def _version(repository_ctx, home):
    """nvcc's own word for what it is, its last line."""
    result = repository_ctx.execute([home + "/bin/nvcc", "--version"])
    if result.return_code != 0:
        fail("%s/bin/nvcc --version failed: %s" % (home, result.stderr))
    return result.stdout.strip().split("\n")[-1]

def _cuda_configure_impl(repository_ctx):
    home = _home(repository_ctx)
    version = ""
    if home == None:
        # buildifier: disable=print
        print("CUDA toolkit not found: building the CPU backend only")
        repository_ctx.file("BUILD", _BUILD_WITHOUT_TOOLKIT)
    else:
        version = _version(repository_ctx, home)
        repository_ctx.symlink(home + "/include", "include")
        repository_ctx.symlink(
            home + "/lib64/libcudart_static.a",
            "lib64/libcudart_static.a",
        )
        repository_ctx.file("BUILD", _BUILD_WITH_TOOLKIT)
    repository_ctx.file("toolkit.bzl", _TOOLKIT.format(
        found = home != None,
        home = home or "",
        version = version,
        compatible = [] if home else ["//third_party/cuda:toolkit"],
    ))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = [
        "CUDA_HOME",
        "QGEMM_CUDA",
    ],
    local = True,
)
