"""HLO text: every rule of XLA's memory model, on texts of a few lines."""

from __future__ import annotations

import pytest

from optsched import check_plan, peak_memory, solve
from optsched.formats import Source
from optsched.formats.hlo.buffer_assignment import read_buffer_assignment
from optsched.formats.hlo.logical import read_logical_module
from optsched.model.elements import InputPolicy
from optsched.model.graph import Graph
from tests.support.hlo_text import P, module


def sizes(graph: Graph) -> dict[str, int]:
    return {buffer.name: buffer.size for buffer in graph.buffers}


def reads(graph: Graph, op: str) -> list[str]:
    return [graph.buffers[b].name for b in graph.ops[graph.op_ids[op]].reads]


def control(graph: Graph, op: str) -> list[str]:
    return [graph.ops[v].name for v in graph.ops[graph.op_ids[op]].control]


def root_of(graph: Graph, name: str) -> str:
    return graph.buffers[graph.roots[graph.buffer_ids[name]]].name


def test_parameters_are_the_callers_and_results_live_to_the_end() -> None:
    graph = module(P, "%a = f32[16]{0} sine(%p)", "ROOT %b = f32[16]{0} cosine(%a)")
    assert graph.buffers[0].input is InputPolicy.EXCLUDED
    assert [graph.kept[graph.buffer_ids[x]] for x in "ab"] == [False, True]
    assert {buffer.alignment for buffer in graph.buffers} == {64}
    assert [op.kind for op in graph.ops] == ["sine", "cosine"]
    assert peak_memory(graph, (0, 1)) == 128


def test_donated_parameters_are_free_after_their_last_use() -> None:
    alias = (
        ", input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[16]{0})}"
    )
    graph = module(P, "%a = f32[16]{0} sine(%p)", "ROOT %b = f32[16]{0} cosine(%a)", head=alias)
    assert graph.buffers[0].input is InputPolicy.FREED


def test_a_donated_parameter_that_nothing_reads_takes_no_bytes_beside_results() -> None:
    graph = module(
        P,
        "%q = f32[16]{0} parameter(1)",
        "ROOT %b = f32[16]{0} sine(%q)",
        head=", input_output_alias={ {}: (0, {}, may-alias) }",
    )
    assert peak_memory(graph, (0,)) == 64


def test_a_donated_parameter_that_is_a_result_lives_to_the_end() -> None:
    graph = module(
        P,
        "%a = f32[16]{0} sine(%p)",
        "%b = f32[16]{0} cosine(%a)",
        "ROOT %t = (f32[16]{0}, f32[16]{0}) tuple(%p, %b)",
        head=", input_output_alias={ {0}: (0, {}, may-alias) }",
    )
    assert graph.kept[graph.buffer_ids["p"]]
    assert peak_memory(graph, (0, 1)) == 192


def test_one_leaf_of_a_parameter_may_be_donated() -> None:
    alias = ", input_output_alias={ {}: (0, {1}, must-alias) }"
    graph = module(
        "%p = (f32[16], f32[16]) parameter(0)",
        "%q = f32[16]{0} get-tuple-element(%p), index=1",
        "ROOT %b = f32[16]{0} cosine(%q)",
        head=alias,
    )
    policies = {buffer.name: buffer.input for buffer in graph.buffers[:2]}
    assert policies == {"p{0}": InputPolicy.EXCLUDED, "p{1}": InputPolicy.FREED}


def test_names_for_what_others_made_own_nothing() -> None:
    graph = module(
        P,
        "%two = (f32[16]{0}, f32[8]{0}) custom-call(%p)",
        "%first = f32[16]{0} get-tuple-element((f32[16]{0}, f32[8]{0}) %two), index=0",
        "%flat = f32[4,4]{1,0} bitcast(f32[16]{0} %first)",
        "%c = f32[] constant(1)",
        "%pair = (f32[4,4]{1,0}, /*index=1*/f32[]) tuple(%flat, /*index=1*/%c)",
        "%again = f32[4,4]{1,0} get-tuple-element(%pair), index=0",
        "ROOT %b = f32[16]{0} fusion(%again, %c), kind=kLoop, calls=%f",
        before="%f (x: f32[4,4], y: f32[]) -> f32[16] {\n  ROOT %x = f32[4,4] parameter(0)\n}\n",
    )
    assert sizes(graph) == {"p": 64, "two{0}": 64, "two{1}": 32, "b": 64}
    assert reads(graph, "b") == ["two{0}"]
    assert graph.ops[1].kind == "fusion:kLoop"


def test_barriers_and_tokens_own_nothing_and_keep_order() -> None:
    graph = module(
        P,
        "%a = f32[16]{0} sine(%p)",
        "%b = f32[16]{0} cosine(%p)",
        "%t = (f32[16]{0}, f32[16]{0}) tuple(%a, %b)",
        "%o = (f32[16]{0}, f32[16]{0}) opt-barrier(%t)",
        "%one = f32[16]{0} get-tuple-element(%o), index=0",
        "%c = f32[16]{0} negate(%one)",
        "%token = token[] after-all()",
        "%sent = token[] custom-call(%c, %token)",
        "%d = f32[16]{0} add-dependency(%b, %sent)",
        "ROOT %e = f32[16]{0} tanh(%d)",
    )
    assert control(graph, "c") == ["a", "b"]
    assert control(graph, "e") == ["b", "sent"]
    assert reads(graph, "e") == ["b"]
    assert "token" not in sizes(graph)


def test_control_predecessors_are_control_edges() -> None:
    graph = module(
        P,
        "%a = f32[16]{0} sine(%p)",
        "%b = f32[16]{0} cosine(%p), control-predecessors={%a}",
        'ROOT %c = f32[16]{0} add(%a, %b), metadata={op_name="control-predecessors={%x}"}',
    )
    assert [control(graph, "b"), control(graph, "c")] == [["a"], []]


BODY = """
%body (s: (s32[], f32[16], f32[16])) -> (s32[], f32[16], f32[16]) {
  %s = (s32[], f32[16]{0}, f32[16]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %v = f32[16]{0} get-tuple-element(%s), index=1
  %w = f32[16]{0} get-tuple-element(%s), index=2
  %j = s32[] negate(%i)
  %wide = f32[64]{0} custom-call(%v, %w)
  %next = f32[16]{0} custom-call(%wide)
  ROOT %r = (s32[], f32[16]{0}, f32[16]{0}) tuple(%j, %next, %w)
}

%test (s.1: (s32[], f32[16], f32[16])) -> pred[] {
  %s.1 = (s32[], f32[16]{0}, f32[16]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  ROOT %less = pred[] custom-call(%i.1)
}
"""


def test_the_state_of_a_while_is_overwritten_and_its_largest_computation_is_workspace() -> None:
    graph = module(
        P,
        "%zero = s32[] custom-call()",
        "%v0 = f32[16]{0} copy(%p)",
        "%state = (s32[], f32[16]{0}, f32[16]{0}) tuple(%zero, %v0, %p)",
        "%loop = (s32[], f32[16]{0}, f32[16]{0}) while(%state), condition=%test, body=%body",
        "ROOT %y = f32[16]{0} get-tuple-element(%loop), index=1",
        before=BODY,
    )
    assert [root_of(graph, f"loop{{{i}}}") for i in range(3)] == ["zero", "v0", "p"]
    assert sizes(graph)["loop.workspace"] == 256  # wide alone: what is handed on has its place
    assert graph.kept[graph.buffer_ids["v0"]]


def test_a_state_that_is_read_later_is_copied() -> None:
    graph = module(
        P,
        "%zero = s32[] custom-call()",
        "%v0 = f32[16]{0} copy(%p)",
        "%state = (s32[], f32[16]{0}, f32[16]{0}) tuple(%zero, %v0, %p)",
        "%loop = (s32[], f32[16]{0}, f32[16]{0}) while(%state), body=%body, condition=%test",
        "%z = f32[16]{0} get-tuple-element(%loop), index=1",
        "ROOT %y = f32[16]{0} add(%z, %v0)",
        before=BODY,
        scheduled=False,
    )
    assert root_of(graph, "loop{1}") == "loop{1}"


CALLEES = """
%small (a: f32[16]) -> f32[16] {
  %a = f32[16]{0} parameter(0)
  %b = f32[32]{0} custom-call(%a)
  ROOT %c = f32[16]{0} custom-call(%b)
}

%large (d: f32[16]) -> f32[16] {
  %d = f32[16]{0} parameter(0)
  %e = f32[64]{0} custom-call(%d)
  %f = f32[64]{0} custom-call(%e)
  ROOT %g = f32[16]{0} custom-call(%f)
}
"""


@pytest.mark.parametrize(
    ("line", "workspace"),
    [
        ("call(%p), to_apply=%small", 128),
        ("conditional(%flag, %p, %p), true_computation=%small, false_computation=%large", 512),
        ("conditional(%flag, %p, %p), branch_computations={%large, %small}", 512),
    ],
)
def test_the_largest_called_computation_is_workspace(line: str, workspace: int) -> None:
    graph = module(
        P, "%flag = pred[] parameter(1)", f"ROOT %y = f32[16]{{0}} {line}", before=CALLEES
    )
    assert sizes(graph) == {"p": 64, "flag": 1, "y": 64, "y.workspace": workspace}


FUSIONS = """
%each (x: f32[16], y: f32[16]) -> f32[16] {
  %x = f32[16]{0} parameter(0)
  %y = f32[16]{0} parameter(1)
  %k = f32[] constant(2)
  %ks = f32[16]{0} broadcast(%k), dimensions={}
  %m = f32[16]{0} multiply(%x, %ks)
  %turned = f32[16]{0} reverse(%y), dimensions={0}
  ROOT %s = f32[16]{0} add(%m, %turned)
}

%part (whole: f32[16], piece: f32[4], at: s32[]) -> f32[16] {
  %piece = f32[4]{0} parameter(1)
  %at = s32[] parameter(2)
  %whole = f32[16]{0} parameter(0)
  ROOT %u = f32[16]{0} dynamic-update-slice(%whole, %piece, %at)
}

%patched (old: f32[16], patch: f32[16], at: s32[]) -> f32[16] {
  %old = f32[16]{0} parameter(0)
  %patch = f32[16]{0} parameter(1)
  %at = s32[] parameter(2)
  %new = f32[16]{0} dynamic-update-slice(%old, %patch, %at)
  ROOT %n = f32[16]{0} negate(%new)
}
"""


def candidates(graph: Graph) -> list[tuple[str, ...]]:
    names = graph.buffers
    return [
        (graph.ops[v].name, names[b].name, names[s].name) for v, b, s in graph.inplace_candidates
    ]


def test_elementwise_results_may_take_an_operands_place() -> None:
    graph = module(
        P,
        "%a = f32[16]{0} custom-call(%p)",
        "%b = f32[16]{0} custom-call(%p)",
        "%c = f32[16]{0} fusion(%a, %b), kind=kLoop, calls=%each",
        "%d = f32[16]{0} fusion(%a, %b), kind=kCustom, calls=%each",
        "%e = s32[16]{0} convert(%d)",
        "%f = f32[4,4]{1,0} reshape(%c)",
        "ROOT %g = f32[4,4]{0,1} copy(%f)",
        before=FUSIONS,
    )
    assert candidates(graph) == [("c", "c", "a")]


@pytest.mark.parametrize(
    ("operands", "more", "found"),
    [
        ("%a, %b", "", [("s", "s{0}", "a"), ("s", "s{1}", "b")]),
        # As in XLA: no other op reads the operand, and the sort reads it once.
        ("%a, %a", "", []),
        ("%a, %b", "%again = f32[8]{0} custom-call(%a)", [("s", "s{1}", "b")]),
    ],
)
def test_a_sort_writes_over_operands_that_it_alone_reads(
    operands: str, more: str, found: list[tuple[str, ...]]
) -> None:
    graph = module(
        P,
        "%a = f32[16]{0} custom-call(%p)",
        "%b = f32[16]{0} custom-call(%p)",
        *filter(None, [more]),
        f"%s = (f32[16]{{0}}, f32[16]{{0}}) sort({operands}), dimensions={{0}}",
        "ROOT %y = f32[16]{0} get-tuple-element(%s), index=1",
    )
    assert candidates(graph) == found


def test_what_an_update_leaves_stays_in_its_place() -> None:
    """Inside a loop fusion as well; what it puts elsewhere does not."""
    graph = module(
        P,
        "%at = s32[] parameter(1)",
        "%a = f32[16]{0} custom-call(%p)",
        "%b = f32[16]{0} custom-call(%p)",
        "ROOT %c = f32[16]{0} fusion(%a, %b, %at), kind=kLoop, calls=%patched",
        before=FUSIONS,
    )
    assert candidates(graph) == [("c", "c", "a")]


@pytest.mark.parametrize(
    "line",
    [
        "dynamic-update-slice(%a, %piece, %at)",
        "fusion(%a, %piece, %at), kind=kLoop, calls=%part",
        "custom-call(%a), output_to_operand_aliasing={{}: (0, {})}",
        "scatter(%a, %at, %piece), to_apply=%part",
    ],
)
def test_an_update_of_a_part_overwrites_what_nobody_reads_later(line: str) -> None:
    lines = (
        P,
        "%piece = f32[4]{0} parameter(1)",
        "%at = s32[] parameter(2)",
        "%a = f32[16]{0} custom-call(%p)",
        f"%b = f32[16]{{0}} {line}",
    )
    graph = module(*lines, "ROOT %c = f32[16]{0} tanh(%b)", before=FUSIONS)
    assert [root_of(graph, "b"), sizes(graph)["b"]] == ["a", 0]
    later = module(*lines, "ROOT %c = f32[16]{0} add(%b, %a)", before=FUSIONS)
    assert root_of(later, "b") == "b"


def test_a_parameter_is_overwritten_only_if_it_is_donated() -> None:
    """As the cache of keys and values of a decoder is: one array, and no second one."""
    part, at = "%part = f32[4]{0} parameter(1)", "%at = s32[] parameter(2)"
    update = "ROOT %b = f32[16]{0} dynamic-update-slice(%p, %part, %at)"
    assert root_of(module(P, part, at, update), "b") == "b"
    donated = ", input_output_alias={ {}: (0, {}, may-alias) }"
    graph = module(P, part, at, update, head=donated)
    assert root_of(graph, "b") == "p"
    assert graph.kept[graph.buffer_ids["p"]]
    assert peak_memory(graph, (0,)) == 64


def test_asynchronous_ops_hold_what_they_work_on_until_they_are_done() -> None:
    graph = module(
        P,
        "%a = f32[16]{0} custom-call(%p)",
        "%start = (f32[16]{0}, f32[16]{0}, u32[]) copy-start(%a)",
        "%other = f32[16]{0} custom-call(%p)",
        "%done = f32[16]{0} copy-done(%start)",
        "ROOT %y = f32[16]{0} add(%done, %other)",
    )
    assert [root_of(graph, x) for x in ("start{1}", "done")] == ["a", "start{0}"]
    assert reads(graph, "done") == ["start{0}", "start{1}", "start{2}"]


OFFLOADED = (
    "%a = f32[16]{0} sine(%p)",
    "%ha = f32[16]{0:S(5)} copy(%a)",
    "%b = f32[16]{0} cosine(%p)",
    "%hb = f32[16]{0:S(5)} copy(%b)",
    "%c = f32[16]{0} custom-call(%p)",
    "%a2 = f32[16]{0} copy(%ha)",
    "%d = f32[16]{0} add(%c, %a2)",
    "%b2 = f32[16]{0} copy(%hb)",
    "ROOT %r = f32[16]{0} add(%d, %b2)",
)


def test_other_memory_spaces_are_not_device_memory() -> None:
    """Host memory, `S(5)`, has two arrays at once, and the device two or three."""
    graph = module(P, *OFFLOADED)
    assert [sizes(graph)[x] for x in ("a", "ha", "hb", "a2")] == [64, 0, 0, 64]
    assert "memory space S(5) apart, 128 bytes in the order of the file" in graph.memory_model
    assert peak_memory(graph, range(len(graph.ops))) == 192
    result = solve(graph.with_inplace())
    assert (result.slab, result.slab_bound) == (128, 128)
    assert ("a2", "a2", "ha") not in candidates(graph)
    text = Source(f"HloModule m\nENTRY %e {{\n{P}\n{chr(10).join(OFFLOADED)}\n}}".encode(), "m")
    logical = read_logical_module(text, pointer_bytes=0).graphs["e"]
    assert sizes(logical)["ha"] == 0


def test_host_memory_of_a_loop_is_named_for_the_module() -> None:
    body = BODY.replace("%wide = f32[64]{0}", "%wide = f32[64]{0:S(5)}")
    graph = module(
        P,
        "%zero = s32[] custom-call()",
        "%state = (s32[], f32[16]{0}, f32[16]{0}) tuple(%zero, %p, %p)",
        "ROOT %loop = (s32[], f32[16]{0}, f32[16]{0}) while(%state), condition=%test, body=%body",
        before=body,
    )
    assert "memory space S(5) apart, 256 bytes" in graph.memory_model
    assert "loop.workspace" not in sizes(graph)


def test_an_assignment_of_another_space_is_not_part_of_the_slab() -> None:
    lines = (P, "%a = f32[16]{0} sine(%p)", "%h = f32[16]{0:S(5)} copy(%a)")
    graph = module(*lines, "ROOT %b = f32[16]{0} copy(%h)")
    text = """BufferAssignment:
allocation 0: size 64, parameter 0, shape |f32[16]| at ShapeIndex {}:
 value: <1 p @0> (size=64,offset=0): f32[16]{0}
allocation 1: size 64, color 5, preallocated-temp:
 value: <3 h @0> (size=64,offset=0): f32[16]{0:S(5)}
allocation 2: size 64, maybe-live-out:
 value: <4 b @0> (size=64,offset=0): f32[16]{0}
allocation 3: size 64, preallocated-temp:
 value: <2 a @0> (size=64,offset=0): f32[16]{0}
"""
    plan, _ = read_buffer_assignment(Source(text.encode(), "x"), graph)
    assert check_plan(graph, plan).slab == 128


def test_computations_may_stand_behind_their_callers() -> None:
    body, test = BODY.strip().split("\n\n")
    inner = body.replace("custom-call(%v, %w)", "call(%v, %w), to_apply=%later")
    later = """%later (l: f32[16], k: f32[16]) -> f32[64] {
  %l = f32[16]{0} parameter(0)
  %k = f32[16]{0} parameter(1)
  %huge = f32[100]{0} custom-call(%l, %k)
  ROOT %o = f32[64]{0} custom-call(%huge)
}
"""
    lines = (
        P,
        "%zero = s32[] custom-call()",
        "%state = (s32[], f32[16]{0}, f32[16]{0}) tuple(%zero, %p, %p)",
        "ROOT %loop = (s32[], f32[16]{0}, f32[16]{0}) while(%state), condition=%test, body=%body",
    )
    one = module(*lines, before="\n\n".join([inner, test, later]))
    assert one == module(*lines, before="\n\n".join([later, inner, test]))
    assert sizes(one)["loop.workspace"] == 256 + 400


def test_a_body_may_overwrite_the_state_that_it_is_given() -> None:
    """The inner loop has no state of its own: that of the outer one is dead once it begins."""
    test = BODY.strip().split("\n\n")[1]
    state = "(f32[16]{0}, f32[16]{0})"
    inner = f"""%inner (s: (f32[16], f32[16])) -> (f32[16], f32[16]) {{
  %s.2 = {state} parameter(0)
  %u = f32[16]{{0}} get-tuple-element(%s.2), index=0
  %v.2 = f32[16]{{0}} get-tuple-element(%s.2), index=1
  %n = f32[16]{{0}} custom-call(%u)
  ROOT %r.2 = {state} tuple(%n, %v.2)
}}

%outer (s.3: (f32[16], f32[16])) -> (f32[16], f32[16]) {{
  %s.3 = {state} parameter(0)
  %loop.3 = {state} while(%s.3), condition=%test, body=%inner
  %w = f32[16]{{0}} get-tuple-element(%loop.3), index=0
  %x = f32[16]{{0}} get-tuple-element(%loop.3), index=1
  %z = f32[16]{{0}} custom-call(%w)
  ROOT %r.3 = {state} tuple(%z, %x)
}}
"""
    lines = (P, f"%two = {state} tuple(%p, %p)")
    run = f"%loop = {state} while(%two), condition=%test, body=%outer"
    last = "ROOT %y = f32[16]{0} get-tuple-element(%loop), index=0"
    assert "loop.workspace" not in sizes(module(*lines, run, last, before=f"{test}\n\n{inner}"))
    # What a call is given is its caller's.
    called = f"%loop = {state} call(%two), to_apply=%outer"
    graph = module(*lines, called, last, before=f"{test}\n\n{inner}")
    assert sizes(graph)["loop.workspace"] == 64


def test_a_long_chain_of_calls_is_read() -> None:
    lines = ["%c0 (a0: f32[16]) -> f32[16] {\n  ROOT %a0 = f32[16]{0} parameter(0)\n}\n"]
    lines += [
        f"%c{i} (a{i}: f32[16]) -> f32[16] {{\n  %a{i} = f32[16]{{0}} parameter(0)\n"
        f"  ROOT %b{i} = f32[16]{{0}} call(%a{i}), to_apply=%c{i - 1}\n}}\n"
        for i in range(1, 1200)
    ]
    graph = module(P, "ROOT %y = f32[16]{0} call(%p), to_apply=%c1199", before="\n".join(lines))
    assert sizes(graph) == {"p": 64, "y": 64}
